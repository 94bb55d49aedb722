#pragma once
// NCCL communicators for CUDA ranks. Made from an MPI communicator by broadcasting the unique id along it.

#include <memory>

#include "trireme/comm/communicator.h"

namespace trireme {

class Backend;
// Takes over `control` for split(), barrier() and start-up; tensors go through NCCL on the backend's streams.
// Throws Error when the build has no NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control, Backend& cuda_backend);

}  // namespace trireme
