#pragma once
// Memory and time of a training step on a machine, before it runs: the engine's own calls of every kind of stage on a
// clock that knows the machine's table, and the schedule of all stages together.

#include <string>
#include <vector>

#include "trireme/train/cost.h"
#include "trireme/train/memory_plan.h"

namespace trireme {

// Seconds of an action by its micro-batch: the first finds gradients to overwrite and weights still arriving, behind
// the layers of the last the reduction of gradients runs.
struct ActionSeconds {
  double first = 0, middle = 0, last = 0;
  double of(int micro, int n_micro) const { return micro + 1 == n_micro ? last : micro == 0 ? first : middle; }
  double sum(int n_micro) const { return n_micro == 1 ? last : first + last + (n_micro - 2) * middle; }
};

// One stage alone, in the second of two steps, with all messages between stages already there.
struct StageTimes {
  std::vector<ActionSeconds> forward, backward;              // per chunk
  std::vector<ActionSeconds> forward_waits, backward_waits;  // of it, waiting for other ranks of the stage
  double tail = 0, tail_waits = 0;  // from the last action to the end of the step: reduction, norm, update
};

struct StagePlan {
  RankPlan memory;
  StageTimes times;
};
// Where weights, gradients and state alone exceed `most_memory` (0: no limit), it is memory without times.
StagePlan plan_stage(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind, const Cost& cost,
                     double most_memory);

struct Prediction {
  double step = 0;                 // seconds
  double bubble = 0, exposed = 0;  // parts of the step in which the busiest stage waits for other stages; for messages
  double tokens_per_second = 0;    // of one rank
  double flops = 0, mfu = 0;       // FLOP/s of one rank and their part of the 16-bit peak, causal count
  double memory = 0;               // bytes on the fullest stage, what driver and libraries take included
  int fullest = 0;                 // that stage
  std::string largest;             // the largest item there: "saved activations, 31.20 GiB"
  std::vector<StagePlan> stages;   // kinds of stages that were planned, the first of each kind
};
// Gives up, with step = 0, at the first kind of stage that needs more than `most_memory` bytes (0: no limit).
Prediction predict(const Deck& deck, const Model& model, const std::array<int, k_n_axes>& size, DeviceKind kind,
                   const Cost& cost, double most_memory);

}  // namespace trireme
