#pragma once
// Two events and a median: what timing a matrix product takes.

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace trireme {

inline double median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Timer {
  cudaEvent_t begin = nullptr, end = nullptr;
  Timer() {
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
  }
  ~Timer() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
};

}  // namespace trireme
