#include "trireme/base/dtype.h"

#include <cmath>
#include <limits>

#include "catch.h"

using namespace trireme;

namespace {

constexpr float k_infinity = std::numeric_limits<float>::infinity();

// The value of 16 bits with the given widths, from the definition of IEEE 754.
double value_of(unsigned bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & top;
  const double fraction = std::ldexp(bits & ((1U << fraction_bits) - 1), -fraction_bits);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == top) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

// Checks, for every bit pattern, the value, that it survives a round trip, and that rounding around the midpoint to its
// upper neighbour goes to nearest, ties to even.
template <class Half>
void check_all_patterns(int exponent_bits, int fraction_bits) {
  int wrong_value = 0, wrong_trip = 0, wrong_round = 0;
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double value = value_of(bits, exponent_bits, fraction_bits);
    const float wide = static_cast<float>(half);
    if (std::isnan(value)) {
      wrong_value += !std::isnan(wide);
      wrong_trip += !std::isnan(static_cast<float>(Half(wide)));
      continue;
    }
    wrong_value += static_cast<double>(wide) != value || std::signbit(wide) != std::signbit(value);
    wrong_trip += Half(wide).bits != bits;
    const double above = value_of(bits + 1, exponent_bits, fraction_bits);
    if (std::isinf(value) || !std::isfinite(above)) continue;
    const auto middle = static_cast<float>(0.5 * (value + above));
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    wrong_round += Half(middle).bits != even;
    wrong_round += Half(std::nextafter(middle, wide)).bits != bits;
    wrong_round += Half(std::nextafter(middle, static_cast<float>(above))).bits != bits + 1;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_trip == 0);
  CHECK(wrong_round == 0);
}

}  // namespace

TEST_CASE("every bf16 pattern has its value and rounding is to nearest even") {
  check_all_patterns<Bf16>(8, 7);
}

TEST_CASE("every f16 pattern has its value and rounding is to nearest even") {
  check_all_patterns<F16>(5, 10);
}

TEST_CASE("numbers too large for 16 bits become infinite and not before") {
  CHECK(static_cast<float>(F16(65519.0F)) == 65504.0F);
  CHECK(static_cast<float>(F16(65520.0F)) == k_infinity);
  CHECK(static_cast<float>(F16(-1e30F)) == -k_infinity);
  CHECK(static_cast<float>(Bf16(3.3895314e38F)) == Approx(3.3895314e38));
  CHECK(static_cast<float>(Bf16(std::numeric_limits<float>::max())) == k_infinity);
}

TEST_CASE("numbers below half the smallest f16 become zero with their sign") {
  CHECK(F16(std::ldexp(1.0F, -25)).bits == 0);
  CHECK(F16(std::nextafter(std::ldexp(1.0F, -25), 1.0F)).bits == 1);
  CHECK(F16(-std::ldexp(1.0F, -26)).bits == 0x8000);
}

TEST_CASE("element types know their size, name and accumulator") {
  CHECK(size_of(DType::f64) == 8);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::e4m3) == 1);
  CHECK(std::string(name_of(DType::i32)) == "i32");
  CHECK(accumulator_of(DType::f64) == DType::f64);
  CHECK(accumulator_of(DType::f16) == DType::f32);
}
