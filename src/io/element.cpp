#include "trireme/io/element.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// By way of float: exact where it widens, see the header where it narrows.
template <class To, class From>
To cast(From x) {
  return static_cast<To>(static_cast<float>(x));
}

template <class To, class From>
void convert_all(std::byte* out, const std::byte* in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, in + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    const To y = cast<To>(x);
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(To)), &y, sizeof(To));
  }
}

template <class To>
void convert_to(std::byte* out, DType from, const std::byte* in, std::int64_t count) {
  switch (from) {
    case DType::f64:
      return convert_all<To, double>(out, in, count);
    case DType::f32:
      return convert_all<To, float>(out, in, count);
    case DType::bf16:
      return convert_all<To, Bf16>(out, in, count);
    case DType::f16:
      return convert_all<To, F16>(out, in, count);
    default:
      break;
  }
  require(false, std::string("no conversion from ") + name_of(from));
}

bool floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace

bool can_convert(DType to, DType from) {
  return to == from || (floating(to) && floating(from));
}

void convert(DType to, std::byte* out, DType from, const std::byte* in, std::int64_t count) {
  if (to == from) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * size_of(to));
    return;
  }
  switch (to) {
    case DType::f64:
      return convert_to<double>(out, from, in, count);
    case DType::f32:
      return convert_to<float>(out, from, in, count);
    case DType::bf16:
      return convert_to<Bf16>(out, from, in, count);
    case DType::f16:
      return convert_to<F16>(out, from, in, count);
    default:
      break;
  }
  require(false, std::string("no conversion to ") + name_of(to));
}

namespace {

// Elements that are converted at a time, on the stack.
constexpr std::int64_t k_batch = 256;

template <class T>
T at(const std::byte* data, std::int64_t i) {
  T x;
  std::memcpy(&x, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return x;
}

template <class T>
void put(std::byte* data, std::int64_t i, T x) {
  std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
}

}  // namespace

void join_master(DType to, std::byte* master, DType weight_dtype, const std::byte* weights, const std::byte* remainders,
                 std::int64_t count) {
  float batch[k_batch];
  auto* bytes = reinterpret_cast<std::byte*>(batch);
  const auto of = [](std::int64_t n, DType dtype) { return n * static_cast<std::int64_t>(size_of(dtype)); };
  for (std::int64_t first = 0; first < count; first += k_batch) {
    const std::int64_t n = std::min(k_batch, count - first);
    convert(DType::f32, bytes, weight_dtype, weights + of(first, weight_dtype), n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto low = static_cast<std::int16_t>(at<std::uint16_t>(remainders, first + i));
      batch[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(batch[i]) + static_cast<std::uint32_t>(low));
    }
    convert(to, master + of(first, to), DType::f32, bytes, n);
  }
}

void split_master(std::byte* remainders, std::byte* weights_bf16, DType from, const std::byte* master,
                  std::int64_t count) {
  float batch[k_batch];
  for (std::int64_t first = 0; first < count; first += k_batch) {
    const std::int64_t n = std::min(k_batch, count - first);
    convert(DType::f32, reinterpret_cast<std::byte*>(batch), from,
            master + first * static_cast<std::int64_t>(size_of(from)), n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(batch[i]);
      const auto weight = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
      put(weights_bf16, first + i, weight);
      put(remainders, first + i, static_cast<std::uint16_t>(bits - (static_cast<std::uint32_t>(weight) << 16)));
    }
  }
}

}  // namespace trireme
