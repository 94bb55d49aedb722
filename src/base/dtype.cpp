#include "trireme/base/dtype.h"

#include <cmath>

namespace trireme {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return 2;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return 1;
  }
  return 0;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u16:
      return "u16";
    case DType::u8:
      return "u8";
  }
  return "unknown";
}

// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. Subnormals are kept, as CUDA's __float2half_rn keeps them.
std::uint16_t F16::round(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000U);
  const std::uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 65536 or is infinite
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns the subnormal's last bit with the float's
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float F16::widen(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0x7f800000U : (exponent + 112U) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

}  // namespace trireme
