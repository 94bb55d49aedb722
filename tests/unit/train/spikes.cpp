#include "trireme/train/spikes.h"

#include <cmath>

#include "catch.h"

using namespace trireme;
using Catch::Matchers::Contains;

namespace {

SpikeDetector fed(double sigma, int n) {
  SpikeDetector detector(sigma, 16);
  for (int i = 0; i < n; ++i) detector.accept(4 + 0.1 * (i % 2), 1 + 0.1 * (i % 2));  // deviations 0.05
  return detector;
}

}  // namespace

TEST_CASE("spikes: what is not finite is trouble, whatever the settings") {
  CHECK_THAT(fed(0, 0).judge(std::nan(""), 1), Contains("not finite"));
  CHECK_THAT(fed(0, 0).judge(4, INFINITY), Contains("not finite"));
  CHECK(fed(0, 16).judge(1e30, 1e30).empty());
}

TEST_CASE("spikes: above sigma is trouble, below and downwards is not, and not before half a window") {
  CHECK_THAT(fed(6, 16).judge(4.05 + 6.1 * 0.05, 1), Contains("loss"));
  CHECK_THAT(fed(6, 16).judge(4, 1.05 + 6.1 * 0.05), Contains("gradient norm"));
  CHECK(fed(6, 16).judge(4.05 + 5.9 * 0.05, 1.05 + 5.9 * 0.05).empty());
  CHECK(fed(6, 16).judge(0.1, 0.01).empty());
  CHECK(fed(6, 7).judge(1000, 1000).empty());
  CHECK_FALSE(fed(6, 8).judge(1000, 1000).empty());
}

TEST_CASE("spikes: old steps are forgotten, and the state is all there is") {
  SpikeDetector detector = fed(6, 16), other(6, 16);
  for (int i = 0; i < 16; ++i) detector.accept(9 + 0.1 * (i % 2), 1 + 0.1 * (i % 2));
  other.restore(detector.state());

  CHECK(detector.judge(9.3, 1).empty());
  CHECK(other.judge(9.3, 1).empty());
  CHECK(other.judge(12, 1) == detector.judge(12, 1));
  CHECK_FALSE(other.judge(12, 1).empty());
}
