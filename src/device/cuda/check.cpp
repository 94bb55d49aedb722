#include "check.h"

#include <string>

#include "trireme/base/log.h"

namespace trireme {

namespace {
std::string hint(cudaError_t code) {
  if (code == cudaErrorMemoryAllocation) {
    return ": the GPU is out of memory; lower batch.micro or see `trireme plan` for the largest items";
  }
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
    return ": this build has no code for this GPU; build with TRIREME_CUDA_ARCH set to its compute capability";
  }
  if (code == cudaErrorInsufficientDriver) return ": the driver is older than the CUDA runtime of this build";
  if (code == cudaErrorECCUncorrectable || code == cudaErrorDevicesUnavailable) return ": the GPU is not usable";
  return "";
}
}  // namespace

void check(cudaError_t code, Where where) {
  if (code == cudaSuccess) return;
  throw Error(Exit::rank, format("CUDA: %s (%s) in %s, %s:%d", cudaGetErrorString(code), cudaGetErrorName(code),
                                 where.function, where.file, where.line) +
                              hint(code));
}

void check(cublasStatus_t code, Where where) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Exit::rank, format("cuBLASLt: %s (%s) in %s, %s:%d", cublasLtGetStatusString(code),
                                 cublasLtGetStatusName(code), where.function, where.file, where.line));
}

}  // namespace trireme
