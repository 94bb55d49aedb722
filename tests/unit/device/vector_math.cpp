#include "../../../src/device/cpu/vector_math.h"

#include <cmath>
#include <limits>

#include "../../../src/device/cpu/reduce.h"
#include "../../../src/device/cpu/storage.h"
#include "catch.h"

using namespace trireme;
using namespace trireme::cpu;

namespace {

template <class R>
double units(R found, long double expected) {
  const auto unit = static_cast<long double>(std::numeric_limits<R>::epsilon());
  return static_cast<double>(std::abs((static_cast<long double>(found) - expected) / expected) / unit);
}

}  // namespace

TEST_CASE("exp is right to two units over the whole range") {
  double worst_float = 0, worst_double = 0;

  for (double x = -87; x < 88.7; x += 0.0137) {
    const auto as_float = static_cast<float>(x);
    worst_float = std::max(worst_float, units(vexp(as_float), std::exp(static_cast<long double>(as_float))));
  }
  for (double x = -708; x < 709.7; x += 0.0937) {
    worst_double = std::max(worst_double, units(vexp(x), std::exp(static_cast<long double>(x))));
  }

  CHECK(worst_float < 2);
  CHECK(worst_double < 2);
}

TEST_CASE("exp keeps its limits and passes NaN") {
  const double infinity = std::numeric_limits<double>::infinity();

  CHECK(vexp(0.0) == 1.0);
  CHECK(vexp(-infinity) == 0.0);
  CHECK(vexp(infinity) == infinity);
  CHECK(vexp(-1e6F) == 0.0F);
  CHECK(std::isinf(vexp(1e6F)));
  CHECK(std::isnan(vexp(std::nan(""))));
  CHECK(std::isnan(vexp(std::nanf(""))));
}

TEST_CASE("the normal distribution keeps the precision of its tails") {
  double worst = 0, worst_float = 0;

  for (double x = -12; x < 12; x += 0.00731) {
    const long double expected = 0.5L * std::erfc(-static_cast<long double>(x) / std::sqrt(2.0L));
    worst = std::max(worst, units(vnormal(x).cdf, expected) / (1 + x * x));  // the argument's own rounding grows as x^2
    const auto y = static_cast<float>(x);
    const long double expected_float = 0.5L * std::erfc(-static_cast<long double>(y) / std::sqrt(2.0L));
    worst_float = std::max(worst_float, units(vnormal(y).cdf, expected_float) / (1 + x * x));
  }

  CHECK(worst < 4);
  CHECK(worst_float < 4);
  CHECK(vnormal(0.0).density == Approx(0.3989422804014327).epsilon(1e-15));
  CHECK(vnormal(100.0).cdf == 1.0);
  CHECK(vnormal(-100.0).cdf == 0.0);
  CHECK(std::isnan(vnormal(std::nan("")).cdf));
}

TEST_CASE("the vector forms of f16 agree with the plain ones on every pattern") {
  int wrong = 0;

  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    F16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float plain = static_cast<float>(half), vector = widen(half);
    wrong += std::isnan(plain) ? !std::isnan(vector)
                               : std::bit_cast<std::uint32_t>(plain) != std::bit_cast<std::uint32_t>(vector);
    for (const float x : {plain, plain * 1.0003F, plain * 0.9997F, std::nextafter(plain, 1e9F), plain * 3e4F}) {
      wrong += F16::round(x) != round_f16(x);
    }
  }

  CHECK(wrong == 0);
}

TEST_CASE("sums and maxima of every length") {
  for (std::int64_t n = 0; n < 200; ++n) {
    std::vector<double> x(static_cast<std::size_t>(n));
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      x[static_cast<std::size_t>(i)] = static_cast<double>(i * 37 % 101) - 120;
      largest = std::max(largest, x[static_cast<std::size_t>(i)]);
    }

    REQUIRE(lane_sum<double>(n, [](std::int64_t i) { return static_cast<double>(i); }) ==
            static_cast<double>(n * (n - 1) / 2));
    REQUIRE(lane_max(x.data(), n) == largest);
  }
}
