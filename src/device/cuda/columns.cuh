#pragma once
// A matrix cut for column sums: a block takes a tile of columns and a run of rows. A tile is as wide as divides the
// columns well, up to the whole block, so that a row is read in long pieces; the threads beside it take other rows.

#include <algorithm>

#include "kernels.cuh"

namespace trireme {

inline constexpr int k_column_threads = 256;

struct ColumnPart {
  std::int64_t access, first_row, last_row;
  int lanes;
  bool inside;
  __device__ ColumnPart(std::int64_t rows, std::int64_t accesses) : lanes(static_cast<int>(blockDim.y)) {
    access = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
    inside = access < accesses;
    first_row = rows * blockIdx.y / gridDim.y + threadIdx.y;
    last_row = rows * (blockIdx.y + 1) / gridDim.y;
  }
};

// Adds the sums of the row lanes in order; lane 0 has the total. Two barriers, so that `shared` may be used again.
template <int N>
__device__ inline void add_row_lanes(float (&sum)[N], float (*shared)[N + 1]) {
  if (blockDim.y == 1) return;
#pragma unroll
  for (int i = 0; i < N; ++i) shared[threadIdx.y * blockDim.x + threadIdx.x][i] = sum[i];
  __syncthreads();
  if (threadIdx.y == 0) {
    for (unsigned lane = 1; lane < blockDim.y; ++lane) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += shared[lane * blockDim.x + threadIdx.x][i];
    }
  }
  __syncthreads();
}

template <int N>
__device__ inline void store_partial(float* out, const float (&sum)[N]) {
  store<float, N>(out, sum);
}

inline dim3 column_block(std::int64_t accesses) {
  unsigned width = 32;
  while (width < k_column_threads && accesses % (2 * width) == 0) width *= 2;
  return {width, k_column_threads / width};
}

// About eight blocks per multiprocessor, each with at least four rows per lane.
inline dim3 column_grid(const dim3& block, std::int64_t rows, std::int64_t accesses, int multiprocessors) {
  const std::int64_t tiles = div_up(accesses, std::int64_t{block.x});
  const std::int64_t wanted = div_up(std::int64_t{multiprocessors} * 8, tiles);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, div_up(rows, std::int64_t{4} * block.y));
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(parts)};
}

}  // namespace trireme
