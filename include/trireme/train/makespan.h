#pragma once
// How long a pipeline takes when every action takes a given time: all stages walk their schedules together, messages
// leave when what they carry is computed and travel one behind the other on each wire. It computes nothing.

#include <functional>
#include <vector>

#include "trireme/train/schedule.h"

namespace trireme {

struct PipelineTimes {
  int n_chunks = 1;
  std::function<double(int stage, const Action&)> seconds;
  double message = 0, closing_message = 0;  // between neighbours; between the last stage and the first
};

struct Makespan {
  std::vector<double> end, busy;  // per stage: when its last action ends, seconds in which it computes
};

Makespan makespan(const std::vector<Schedule>& schedules, const PipelineTimes& times);

}  // namespace trireme
