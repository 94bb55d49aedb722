// Stands in for src/device/cuda in builds without CUDA.

#include "trireme/base/check.h"
#include "trireme/device/backend.h"

namespace trireme {

int cuda_device_count() {
  return 0;
}

std::string cuda_device_id(int /*local_rank*/) {
  return "";
}

std::unique_ptr<Backend> make_cuda_backend(int /*local_rank*/, const CudaOptions& /*options*/) {
  throw Error(Exit::usage,
              "this build has no CUDA: set device.kind = \"cpu\", or build with -DTRIREME_CUDA=ON and nvcc on PATH");
}

}  // namespace trireme
