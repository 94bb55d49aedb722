#pragma once
// A matrix cut for column sums: a block takes 32 accesses of columns and a run of rows, k_column_lanes rows at a time.

#include <algorithm>

#include "kernels.cuh"

namespace trireme {

inline constexpr int k_column_lanes = 8;
inline constexpr int k_column_threads = 32 * k_column_lanes;

struct ColumnPart {
  std::int64_t access, first_row, last_row;
  bool inside;
  __device__ ColumnPart(std::int64_t rows, std::int64_t accesses) {
    access = blockIdx.x * std::int64_t{32} + threadIdx.x;
    inside = access < accesses;
    first_row = rows * blockIdx.y / gridDim.y + threadIdx.y;
    last_row = rows * (blockIdx.y + 1) / gridDim.y;
  }
};

// Adds the sums of the row lanes in order; lane 0 has the total. Two barriers, so that `shared` may be used again.
template <int N>
__device__ inline void add_row_lanes(float (&sum)[N], float (*shared)[32][N + 1]) {
#pragma unroll
  for (int i = 0; i < N; ++i) shared[threadIdx.y][threadIdx.x][i] = sum[i];
  __syncthreads();
  if (threadIdx.y == 0) {
    for (int lane = 1; lane < k_column_lanes; ++lane) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += shared[lane][threadIdx.x][i];
    }
  }
  __syncthreads();
}

template <int N>
__device__ inline void store_partial(float* out, const float (&sum)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = sum[i];
}

// About eight blocks per multiprocessor, each with at least four rows per lane.
inline dim3 column_grid(std::int64_t rows, std::int64_t accesses, int multiprocessors) {
  const std::int64_t tiles = div_up(accesses, 32);
  const std::int64_t wanted = div_up(std::int64_t{multiprocessors} * 8, tiles);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, div_up(rows, std::int64_t{4} * k_column_lanes));
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(parts)};
}

}  // namespace trireme
