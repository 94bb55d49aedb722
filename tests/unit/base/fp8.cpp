// FP8 numbers: every code by its definition, rounding against a search, the scale at its edges.
#include "trireme/base/fp8.h"

#include <cmath>
#include <limits>

#include "catch.h"

using namespace trireme;

namespace {

// The nearest code by looking at all of them; ties go to the even code.
std::uint8_t nearest(float x, DType format) {
  int best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 128; ++code) {
    const float value = widen_fp8(static_cast<std::uint8_t>(code), format);
    if (!std::isfinite(value)) continue;
    const double d = std::abs(static_cast<double>(value) - std::abs(static_cast<double>(x)));
    if (d < distance || (d == distance && code % 2 == 0)) {
      best = code;
      distance = d;
    }
  }
  return static_cast<std::uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

}  // namespace

TEST_CASE("known FP8 numbers") {
  CHECK(widen_fp8(0x38, DType::e4m3) == 1.0F);
  CHECK(widen_fp8(0x7e, DType::e4m3) == 448.0F);
  CHECK(widen_fp8(0x01, DType::e4m3) == std::ldexp(1.0F, -9));
  CHECK(widen_fp8(0x08, DType::e4m3) == std::ldexp(1.0F, -6));
  CHECK(std::isnan(widen_fp8(0x7f, DType::e4m3)));
  CHECK(widen_fp8(0x3c, DType::e5m2) == 1.0F);
  CHECK(widen_fp8(0x7b, DType::e5m2) == 57344.0F);
  CHECK(widen_fp8(0x01, DType::e5m2) == std::ldexp(1.0F, -16));
  CHECK(std::isinf(widen_fp8(0x7c, DType::e5m2)));
  CHECK(widen_fp8(0xbc, DType::e5m2) == -1.0F);
}

TEST_CASE("rounding to FP8 finds the nearest number, ties to even, and saturates") {
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for (int exponent = -20; exponent <= 17; ++exponent) {
      for (int i = 0; i < 128; ++i) {
        const float x = std::ldexp(1.0F + static_cast<float>(i) / 128, exponent);
        INFO(name_of(format) << " " << x);
        CHECK(round_fp8(x, format) == nearest(x, format));
        CHECK(round_fp8(-x, format) == nearest(-x, format));
      }
    }
    CHECK(widen_fp8(round_fp8(std::numeric_limits<float>::infinity(), format), format) == largest_fp8(format));
    CHECK(std::isnan(widen_fp8(round_fp8(std::nanf(""), format), format)));
    CHECK(round_fp8(0.0F, format) == 0);
  }
}

TEST_CASE("codes survive the way through float") {
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    for (int code = 0; code < 256; ++code) {
      const auto bits = static_cast<std::uint8_t>(code);
      if (std::isfinite(widen_fp8(bits, format))) CHECK(round_fp8(widen_fp8(bits, format), format) == bits);
    }
  }
}

TEST_CASE("the scale is the smallest power of two that makes the row fit") {
  constexpr Scales pow2 = Scales::powers_of_two;
  CHECK(fp8_scale(448.0F, DType::e4m3, pow2) == 1.0F);
  CHECK(fp8_scale(449.0F, DType::e4m3, pow2) == 2.0F);
  CHECK(fp8_scale(224.0F, DType::e4m3, pow2) == 0.5F);
  CHECK(fp8_scale(57344.0F, DType::e5m2, pow2) == 1.0F);
  CHECK(fp8_scale(0.0F, DType::e4m3, pow2) == std::ldexp(1.0F, -100));
  CHECK(fp8_scale(1e-44F, DType::e4m3, pow2) == std::ldexp(1.0F, -100));
  CHECK(std::isnan(fp8_scale(std::numeric_limits<float>::infinity(), DType::e4m3, pow2)));
  CHECK(std::isnan(fp8_scale(std::nanf(""), DType::e5m2, pow2)));
  for (float x = 1e-6F; x < 1e30F; x *= 1.37F) {
    const float scale = fp8_scale(x, DType::e4m3, pow2);
    CHECK(x / scale <= 448.0F);
    CHECK(x / scale > 224.0F);
    CHECK(fp8_scale(x, DType::e4m3, Scales::any) == x / 448.0F);
  }
  CHECK(fp8_scale(0.0F, DType::e4m3, Scales::any) == std::ldexp(1.0F, -100));
  CHECK(std::isnan(fp8_scale(std::numeric_limits<float>::infinity(), DType::e5m2, Scales::any)));
}
