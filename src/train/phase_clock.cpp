#include "trireme/train/phase_clock.h"

#include <limits>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// Two steps are in flight; a few marks of the engine come between, and many of a trace.
constexpr std::size_t k_most_marks = Backend::k_kept_marks / 2 - 16;

}  // namespace

const char* name_of(Phase phase) {
  constexpr std::array<const char*, k_n_phases> names{"forward", "backward", "waiting", "optimizer"};
  return names[static_cast<std::size_t>(phase)];
}

void PhaseClock::begin_step() {
  ++current_;
  entries().clear();
}

void PhaseClock::enter(Phase phase) {
  std::vector<Entry>& marks = entries();
  const bool same = !marks.empty() && marks.back().phase == phase;
  if (!same && marks.size() <= k_most_marks) marks.push_back({phase, backend_.mark()});
}

void PhaseClock::end_step() {
  if (entries().size() <= k_most_marks) entries().push_back({Phase::optimizer, backend_.mark()});
}

PhaseSeconds PhaseClock::seconds(std::int64_t step) const {
  require(step == current_ || step == current_ - 1, "phases are kept for two steps");
  const std::vector<Entry>& marks = steps_[static_cast<std::size_t>(step % 2)];
  PhaseSeconds sums{};
  const bool forgotten = !marks.empty() && backend_.mark() - marks.front().mark >= Backend::k_kept_marks;
  if (marks.size() > k_most_marks || forgotten) {
    sums.fill(std::numeric_limits<double>::quiet_NaN());
    return sums;
  }
  if (!marks.empty()) backend_.wait(marks.back().mark);
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    sums[static_cast<std::size_t>(marks[i].phase)] +=
        backend_.time_of(marks[i + 1].mark) - backend_.time_of(marks[i].mark);
  }
  return sums;
}

}  // namespace trireme
