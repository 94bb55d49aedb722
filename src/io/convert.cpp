#include "convert.h"

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

}  // namespace trireme
