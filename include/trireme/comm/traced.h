#pragma once
// A communicator that records on this rank's board what passes through it; everything else is the inner one's business.
// What it splits off is recorded too. One rank alone is not recorded.

#include <memory>
#include <string>

#include "trireme/base/trace.h"
#include "trireme/comm/communicator.h"

namespace trireme {

// For all ranks of the job: `id` is any number that no other traced world has.
std::unique_ptr<Communicator> make_traced_communicator(std::unique_ptr<Communicator> inner, Recorder& recorder,
                                                       const std::string& name, std::uint64_t id);

}  // namespace trireme
