#include "checksum.h"

#include <cstring>

#include "trireme/base/check.h"

namespace trireme {

namespace {

template <class Word>
std::uint64_t sum_of(const std::byte* data, std::uint64_t first, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    Word bits;
    std::memcpy(&bits, data + i * static_cast<std::int64_t>(sizeof(Word)), sizeof(Word));
    const std::uint64_t x = ((first + static_cast<std::uint64_t>(i)) * 0x9e3779b97f4a7c15ULL) ^ bits;
    const std::uint64_t y = x * 0xbf58476d1ce4e5b9ULL;
    sum += (y ^ (y >> 32)) * 0x94d049bb133111ebULL;
  }
  return sum;
}

}  // namespace

std::uint64_t checksum(const std::byte* data, std::size_t size, std::int64_t first, std::int64_t count) {
  const auto from = static_cast<std::uint64_t>(first);
  switch (size) {
    case 1:
      return sum_of<std::uint8_t>(data, from, count);
    case 2:
      return sum_of<std::uint16_t>(data, from, count);
    case 4:
      return sum_of<std::uint32_t>(data, from, count);
    case 8:
      return sum_of<std::uint64_t>(data, from, count);
    default:
      break;
  }
  require(false, "checksum of elements that are not of 1, 2, 4 or 8 bytes");
  return 0;
}

}  // namespace trireme
