#include "trireme/train/makespan.h"

#include <algorithm>
#include <tuple>

#include "catch.h"

using namespace trireme;

namespace {

std::vector<Schedule> schedules_of(const char* name, int n_stages, int n_micro, int n_chunks) {
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < n_stages; ++stage)
    schedules.push_back(make_schedule(name, stage, n_stages, n_micro, n_chunks));
  return schedules;
}

double longest(const Makespan& span) {
  return *std::max_element(span.end.begin(), span.end.end());
}

PipelineTimes times_of(int n_chunks, double forward, double backward, double message) {
  PipelineTimes times;
  times.n_chunks = n_chunks;
  times.seconds = [=](int, const Action& action) { return action.kind == Action::forward ? forward : backward; };
  times.message = times.closing_message = message;
  return times;
}

}  // namespace

// (m v + p - 1) (tf + tb), times of one chunk.
TEST_CASE("with free messages the makespan is the ideal one") {
  for (const auto& [name, p, m, v] :
       {std::tuple{"1f1b", 1, 3, 1}, std::tuple{"1f1b", 4, 8, 1}, std::tuple{"gpipe", 4, 8, 1},
        std::tuple{"1f1b", 4, 8, 3}, std::tuple{"1f1b", 2, 2, 2}}) {
    INFO(name << " " << p << " stages, " << m << " micro-batches, " << v << " chunks");
    const Makespan span = makespan(schedules_of(name, p, m, v), times_of(v, 1, 2, 0));
    CHECK(longest(span) == Approx((m * v + p - 1) * 3));
    for (const double busy : span.busy) CHECK(busy == Approx(m * v * 3));
  }
}

TEST_CASE("a slow stage holds up the others") {
  PipelineTimes times = times_of(1, 1, 2, 0);
  times.seconds = [](int stage, const Action& action) {
    return (action.kind == Action::forward ? 1.0 : 2.0) * (stage == 1 ? 2 : 1);
  };
  const Makespan span = makespan(schedules_of("1f1b", 3, 20, 1), times);
  CHECK(span.busy[1] == Approx(20 * 6));
  CHECK(longest(span) > 20 * 6);
  CHECK(longest(span) < 20 * 6 + 2 * 3 * 2 + 1e-9);  // its own work, and at most the others' fill and drain
}

TEST_CASE("messages delay, and a wire carries one at a time") {
  // Two stages, one micro-batch: F0, message, F1, B1, message, B0.
  CHECK(longest(makespan(schedules_of("1f1b", 2, 1, 1), times_of(1, 1, 2, 0.5))) == Approx(1 + 0.5 + 1 + 2 + 0.5 + 2));
  // All forwards first on gpipe: messages that take longer than a forward are what counts.
  const double wide = longest(makespan(schedules_of("gpipe", 2, 10, 1), times_of(1, 1, 0, 3)));
  CHECK(wide == Approx(1 + 10 * 3 + 1 + 10 * 3));
}
