#pragma once
// The clocks of different hosts, brought to one: what a rank must add to its own clock to have rank 0's. It sets
// nothing.

#include <cstdint>
#include <functional>

#include "trireme/comm/communicator.h"

namespace trireme {

struct ClockShift {
  std::int64_t shift_ns = 0;  // rank 0's clock = this rank's + shift
  std::int64_t error_ns = 0;  // at most, whatever the network did
};

// Collective over `all` (host tensors). clock: nanoseconds from any beginning. Rank 0 asks each rank in turn and keeps
// the answer with the shortest way there and back (Cristian, 1989, "Probabilistic clock synchronization").
ClockShift shift_to_rank_0(Communicator& all, const std::function<std::int64_t()>& clock);

}  // namespace trireme
