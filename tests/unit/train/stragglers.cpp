#include "trireme/train/stragglers.h"

#include "catch.h"

using namespace trireme;

TEST_CASE("stragglers: min, median, max and who") {
  const BusyTimes times = busy_times({1.0, 4.0, 2.0, 3.0});

  CHECK(times.min == 1);
  CHECK(times.median == 2);
  CHECK(times.max == 4);
  CHECK(times.slowest == 1);
}

TEST_CASE("stragglers: one that is clearly slowest in eight of ten is named, once") {
  Suspicion suspicion;
  int named = 0, at = 0;
  for (int i = 1; i <= 30; ++i) {
    const bool calm = i == 3 || i == 6;
    if (suspicion.judge(calm ? busy_times({1, 1, 1}) : busy_times({1, 1, 1.5}))) ++named, at = i;
  }

  CHECK(named == 1);
  CHECK(at == 10);
}

TEST_CASE("stragglers: changing slowest ranks and small differences accuse nobody") {
  Suspicion changing, small;
  for (int i = 0; i < 40; ++i) {
    CHECK_FALSE(changing.judge(i % 2 == 0 ? busy_times({1, 1, 2}) : busy_times({1, 2, 1})));
    CHECK_FALSE(small.judge(busy_times({1, 1, 1.2})));
  }
}
