#include "trireme/train/comparison.h"

#include <cmath>
#include <limits>

#include "catch.h"

using namespace trireme;

namespace {

const double k_nan = std::numeric_limits<double>::quiet_NaN();

ParamSpec spec_of(const std::string& name, int layer) {
  ParamSpec spec;
  spec.name = name;
  spec.layer = layer;
  spec.shape = {2};
  return spec;
}

}  // namespace

TEST_CASE("a number that is not one is worse than any other") {
  CHECK(worse(1, 2) == 2);
  CHECK(worse(2, 1) == 2);
  CHECK(std::isinf(worse(k_nan, 1)));
  CHECK(std::isinf(worse(1, k_nan)));
}

TEST_CASE("relative differences are to the reference, and zero equals zero") {
  CHECK(relative_difference(0, 0) == 0);
  CHECK(relative_difference(1.1, 1) == Approx(0.1));
  CHECK(std::isinf(relative_difference(1, 0)));
  CHECK(std::isnan(relative_difference(k_nan, 1)));
}

TEST_CASE("gradients are compared element by element") {
  const GradientDifference d = compare(spec_of("w", 3), {1, 2.5}, {1, -2});
  CHECK((d.name == "w" && d.layer == 3));
  CHECK(d.difference == 4.5);
  CHECK(d.largest == 2);
  CHECK(std::isinf(compare(spec_of("w", 3), {1, k_nan}, {1, 2}).difference));
  CHECK(std::isinf(compare(spec_of("w", 3), {1, 2}, {1, k_nan}).difference));
}

TEST_CASE("a wrong gradient shows, one that cancels to rounding does not") {
  const std::vector<GradientDifference> all = {
      compare(spec_of("q", 0), {1, 0.5}, {1, 0.5}),
      compare(spec_of("k.bias", 0), {1e-17, 0}, {-2e-17, 1e-17}),
      compare(spec_of("q", 1), {1e-3, 0}, {1.001e-3, 0}),
  };

  const std::vector<double> relative = over_layers(all);

  CHECK(relative[0] == 0);
  CHECK(relative[1] < 1e-16);
  CHECK(relative[2] == Approx(1e-3 / 1.001).epsilon(1e-6));
}

TEST_CASE("layers without any gradient agree only when both are zero") {
  CHECK(over_layers({compare(spec_of("a", 0), {0, 0}, {0, 0})})[0] == 0);
  CHECK(std::isinf(over_layers({compare(spec_of("a", 0), {1, 0}, {0, 0})})[0]));
}
