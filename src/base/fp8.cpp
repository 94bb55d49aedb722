#include "trireme/base/fp8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "trireme/base/check.h"

namespace trireme {

namespace {

struct Format {
  int fraction_bits, bias;
  float largest;
  std::uint8_t nan;
};

constexpr Format k_e4m3{3, 7, 448.0F, 0x7f}, k_e5m2{2, 15, 57344.0F, 0x7f};

const Format& format_of(DType dtype) {
  require(dtype == DType::e4m3 || dtype == DType::e5m2, "not an FP8 format");
  return dtype == DType::e4m3 ? k_e4m3 : k_e5m2;
}

float widen(std::uint8_t bits, const Format& f) {
  const int exponent = (bits & 0x7f) >> f.fraction_bits, fraction = bits & ((1 << f.fraction_bits) - 1);
  const bool e5m2 = f.fraction_bits == 2;
  float value = 0;
  if (!e5m2 && (bits & 0x7f) == 0x7f) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (e5m2 && exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), 1 - f.bias - f.fraction_bits);
  } else {
    value = std::ldexp(static_cast<float>(fraction + (1 << f.fraction_bits)), exponent - f.bias - f.fraction_bits);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

using Table = std::array<float, 256>;
Table table_of(const Format& f) {
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = widen(static_cast<std::uint8_t>(i), f);
  return table;
}

}  // namespace

float largest_fp8(DType format) {
  return format_of(format).largest;
}

std::uint8_t round_fp8(float x, DType dtype) {
  const Format& f = format_of(dtype);
  const std::uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::abs(x);
  if (std::isnan(x)) return f.nan;
  if (magnitude >= f.largest) return static_cast<std::uint8_t>(sign | (f.fraction_bits == 3 ? 0x7e : 0x7b));
  // The weight of the last bit; below the smallest normal number it stays where it is.
  const int exponent = std::max(magnitude == 0 ? -1000 : std::ilogb(magnitude), 1 - f.bias);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent)));
  // `units` counts from the exponent's start: a carry into the next exponent comes out right by itself.
  const int bits = ((exponent + f.bias - 1) << f.fraction_bits) + units;
  return static_cast<std::uint8_t>(sign | bits);
}

float widen_fp8(std::uint8_t bits, DType dtype) {
  static const Table e4m3 = table_of(k_e4m3), e5m2 = table_of(k_e5m2);
  return dtype == DType::e4m3 ? e4m3[bits] : e5m2[bits];
}

float fp8_scale(float absmax, DType dtype, Scales scales) {
  if (!std::isfinite(absmax)) return std::numeric_limits<float>::quiet_NaN();
  constexpr int least = -100;
  const float quotient = absmax / format_of(dtype).largest;
  if (scales == Scales::any) return std::max(quotient, std::ldexp(1.0F, least));
  if (quotient == 0) return std::ldexp(1.0F, least);
  int exponent = 0;
  const float fraction = std::frexp(quotient, &exponent);  // in [0.5, 1)
  if (fraction == 0.5F) --exponent;                        // a power of two is its own scale
  return std::ldexp(1.0F, std::max(exponent, least));
}

}  // namespace trireme
