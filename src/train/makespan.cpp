#include "trireme/train/makespan.h"

#include <algorithm>
#include <array>
#include <deque>

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr double k_not_yet = -1;

class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules, const PipelineTimes& times)
      : schedules_(schedules), times_(times), n_stages_(static_cast<int>(schedules.size())) {
    for (const Schedule& schedule : schedules) {
      for (const Action& action : schedule) n_micro_ = std::max(n_micro_, action.micro + 1);
    }
    const auto n = static_cast<std::size_t>(n_stages_ * times.n_chunks * n_micro_);
    arrived_ = {std::vector<double>(n, k_not_yet), std::vector<double>(n, k_not_yet)};
    wire_free_ = {std::vector<double>(schedules.size(), 0), std::vector<double>(schedules.size(), 0)};
    next_.resize(schedules.size(), 0);
    result_.end.resize(schedules.size(), 0);
    result_.busy.resize(schedules.size(), 0);
    for (int micro = 0; micro < n_micro_; ++micro) arrived(Action::forward, 0, 0, micro) = 0;
  }

  Makespan run() {
    std::deque<int> waiting;
    for (int stage = 0; stage < n_stages_; ++stage) waiting.push_back(stage);
    while (!waiting.empty()) {
      const int stage = waiting.front();
      waiting.pop_front();
      const std::size_t before = next_[static_cast<std::size_t>(stage)];
      advance(stage);
      if (next_[static_cast<std::size_t>(stage)] == before) continue;
      for (const int neighbour : {(stage + 1) % n_stages_, (stage + n_stages_ - 1) % n_stages_})
        waiting.push_back(neighbour);
    }
    for (int stage = 0; stage < n_stages_; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      require(next_[s] == schedules_[s].size(), "a pipeline schedule gets stuck");
    }
    return result_;
  }

 private:
  double& arrived(Action::Kind kind, int stage, int chunk, int micro) {
    return arrived_[kind == Action::forward ? 0 : 1]
                   [static_cast<std::size_t>((stage * times_.n_chunks + chunk) * n_micro_ + micro)];
  }

  void advance(int stage) {
    const auto s = static_cast<std::size_t>(stage);
    for (; next_[s] < schedules_[s].size(); ++next_[s]) {
      const Action& action = schedules_[s][next_[s]];
      const double input = arrived(action.kind, stage, action.chunk, action.micro);
      if (input == k_not_yet) return;
      const double seconds = times_.seconds(stage, action);
      result_.end[s] = std::max(result_.end[s], input) + seconds;
      result_.busy[s] += seconds;
      leave(stage, action, result_.end[s]);
    }
  }

  void leave(int stage, const Action& action, double now) {
    const bool forward = action.kind == Action::forward;
    const bool round = forward ? stage == n_stages_ - 1 : stage == 0;
    const bool ends = round && action.chunk == (forward ? times_.n_chunks - 1 : 0);
    if (ends && forward) arrived(Action::backward, stage, action.chunk, action.micro) = now;
    if (ends) return;
    const int to = (stage + (forward ? 1 : n_stages_ - 1)) % n_stages_;
    const int chunk = action.chunk + (round ? (forward ? 1 : -1) : 0);
    double& free = wire_free_[forward ? 0 : 1][static_cast<std::size_t>(stage)];
    free = std::max(free, now) + (round ? times_.closing_message : times_.message);
    arrived(action.kind, to, chunk, action.micro) = free;
  }

  const std::vector<Schedule>& schedules_;
  const PipelineTimes& times_;
  int n_stages_, n_micro_ = 0;
  std::array<std::vector<double>, 2> arrived_, wire_free_;  // forward, backward
  std::vector<std::size_t> next_;
  Makespan result_;
};

}  // namespace

Makespan makespan(const std::vector<Schedule>& schedules, const PipelineTimes& times) {
  return Walk(schedules, times).run();
}

}  // namespace trireme
