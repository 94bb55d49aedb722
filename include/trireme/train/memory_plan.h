#pragma once
// How much memory a rank will need and what it will compute and send: found by running the very code of a step on a
// backend that computes nothing. Works without MPI for any rank of any grid.

#include "trireme/comm/process_grid.h"
#include "trireme/device/meter.h"
#include "trireme/train/engine.h"

namespace trireme {

struct RankPlan {
  GridPoint here;
  ArenaSizes sizes;
  Engine::MemoryUse memory;
  std::size_t snapshot = 0;      // of asynchronous saves when the device is the CPU; in `memory`
  std::int64_t n_params = 0;     // local elements
  Counters flops;                // of one step on this rank, recomputation included
  ProcessGrid::Traffic traffic;  // bytes sent in one step
  double pipeline_bytes = 0;
  std::vector<Range> layers;  // per chunk
  std::vector<int> slots;     // micro-batches in flight per chunk
  std::size_t total() const;
};

// A batch that exists for plan backends only: nothing but its number of micro-batches.
HostBatch planned_batch(int n_micro);
// One step of this rank with one micro-batch per chunk and stage, told to the meter.
void meter_step(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind, Meter& meter);

// Memory, layers and slots of an engine that has gone through training steps and an evaluation on a plan backend.
RankPlan memory_of(const Deck& deck, Engine& engine, const GridPoint& here, DeviceKind kind);
RankPlan plan_rank(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind);

// FLOPs of the model per token, forward and backward: causal 6N + 6 L h s, full attention 6N + 12 L h s with h = heads
// * head_dim.
struct ModelFlops {
  double causal = 0, full = 0;
};
ModelFlops flops_per_token(const Model& model);

}  // namespace trireme
