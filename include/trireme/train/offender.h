#pragma once
// Where numbers went wrong. After a step without an update the weights are those before it, so the step can be computed
// again, a micro-batch at a time and without reductions, and every rank looks at what it alone made. Collective; slow.

#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/device/backend.h"
#include "trireme/train/engine.h"

namespace trireme {

// "gradient of block.3.attn.q.weight (layer 3) on rank 5 (...), micro-batch 2"; says so when nothing is found any more.
std::string first_offender(Engine& engine, Backend& backend, const MpiSession& session, const HostBatch& batch,
                           const UpdateSettings& settings);

// Whether the replicas of every weight hold the same bits; empty when they do, else the first tensor and the ranks that
// differ from most.
std::string differing_replicas(Engine& engine, const ProcessGrid& grid, const MpiSession& session, Backend& backend);

}  // namespace trireme
