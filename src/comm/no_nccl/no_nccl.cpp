#include "trireme/base/check.h"
#include "trireme/comm/nccl.h"

namespace trireme {

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator>, Backend&) {
  throw Error(
      Exit::usage,
      "device.comm = \"nccl\" but this build has no NCCL: set device.comm = \"mpi\" or build with TRIREME_CUDA=ON");
}

}  // namespace trireme
