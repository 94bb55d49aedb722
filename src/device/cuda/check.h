#pragma once
// Return codes of CUDA's libraries as errors that say which call failed, where, and what the library thinks of it.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "trireme/base/check.h"

namespace trireme {

void check(cudaError_t code, Where where = Where::here());
void check(cublasStatus_t code, Where where = Where::here());

// After a kernel launch: a bad launch configuration or an error that an earlier kernel left behind.
inline void check_launch(Where where = Where::here()) {
  check(cudaGetLastError(), where);
}

}  // namespace trireme
