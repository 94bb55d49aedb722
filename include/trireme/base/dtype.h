#pragma once
// Element types and their host-side conversions. Rounding is to nearest even everywhere, as the GPU does it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme {

enum class DType : std::uint8_t { f64, f32, bf16, f16, e4m3, e5m2, i64, i32, u16, u8 };

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);  // "bf16"
// What sums over many elements are kept in: f64 for f64, else f32.
inline DType accumulator_of(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

// Storage types: they only convert. NaN stays NaN, overflow becomes infinity.
struct Bf16 {
  std::uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float x) : bits(round(x)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static std::uint16_t round(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((u >> 16) | 0x40U);
    return static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
};

struct F16 {
  std::uint16_t bits = 0;
  F16() = default;
  explicit F16(float x) : bits(round(x)) {}
  explicit operator float() const { return widen(bits); }
  static std::uint16_t round(float x);
  static float widen(std::uint16_t bits);
};

}  // namespace trireme
