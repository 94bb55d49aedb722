#include "trireme/train/phase_clock.h"

#include <chrono>
#include <cmath>
#include <thread>

#include "catch.h"

using namespace trireme;

namespace {

void pass_time() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

double of(const PhaseSeconds& seconds, Phase phase) {
  return seconds[static_cast<std::size_t>(phase)];
}

}  // namespace

TEST_CASE("time goes to the phase that was entered last, and both of two steps are kept") {
  const auto backend = make_cpu_backend(1);
  PhaseClock clock(*backend);

  clock.begin_step();
  clock.enter(Phase::forward);
  pass_time();
  clock.enter(Phase::backward);
  clock.enter(Phase::forward);
  pass_time();
  clock.enter(Phase::optimizer);
  clock.end_step();
  const std::int64_t first = clock.step();
  clock.begin_step();
  clock.enter(Phase::waiting);
  pass_time();
  clock.end_step();

  const PhaseSeconds one = clock.seconds(first), two = clock.seconds(clock.step());
  CHECK(of(one, Phase::forward) >= 0.010);
  CHECK(of(one, Phase::backward) < 0.005);
  CHECK(of(one, Phase::waiting) == 0);
  CHECK(of(two, Phase::waiting) >= 0.005);
  CHECK(of(two, Phase::forward) == 0);
}

TEST_CASE("a step with more phases than the backend keeps marks has no times") {
  const auto backend = make_cpu_backend(1);
  PhaseClock clock(*backend);

  clock.begin_step();
  for (std::int64_t i = 0; i < Backend::k_kept_marks; ++i) clock.enter(i % 2 == 0 ? Phase::forward : Phase::backward);
  clock.end_step();

  for (const double seconds : clock.seconds(clock.step())) CHECK(std::isnan(seconds));
}
