#pragma once
// A running maximum with its sum of exponentials: taken in by a thread pack by pack, joined over the block.

#include "kernels.cuh"

namespace trireme {

template <class T>
__device__ inline float exponential(float x) {
  if constexpr (std::is_same_v<T, float>) return expf(x);
  return fast_exp(x);
}

// sum = sum of exp(x - max); two of them combine in any order.
struct Running {
  float max = -INFINITY, sum = 0.0F;

  template <class T, int N>
  __device__ void take(const Pack<T, N>& pack) {
    float v[N];
    unpack(v, pack);
    float top = v[0];
#pragma unroll
    for (int i = 1; i < N; ++i) top = fmaxf(top, v[i]);
    if (top > max) {
      sum *= exponential<T>(max - top);
      max = top;
    }
    float more = 0.0F;
#pragma unroll
    for (int i = 0; i < N; ++i) more += exponential<T>(v[i] - max);
    sum += more;
  }

  __device__ void combine(float other_max, float other_sum) {
    const float larger = fmaxf(max, other_max);
    if (larger == -INFINITY) return;
    sum = sum * expf(max - larger) + other_sum * expf(other_max - larger);
    max = larger;
  }
  __device__ void combine_lanes() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      combine(__shfl_xor_sync(0xffffffffU, max, step), __shfl_xor_sync(0xffffffffU, sum, step));
  }
  // Every thread gets the same bits; `shared` has 32 elements.
  __device__ void combine_block(float2* shared) {
    combine_lanes();
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) shared[threadIdx.x / 32] = {max, sum};
    __syncthreads();
    const float2 mine = lane < blockDim.x / 32 ? shared[lane] : float2{-INFINITY, 0.0F};
    max = mine.x;
    sum = mine.y;
    combine_lanes();
  }
};

// The elements of a row between its last whole pack and its last valid column, one per thread.
template <int N, class T>
__device__ inline void take_rest(Running& mine, const T* row, int n_valid) {
  const int rest = n_valid / N * N + static_cast<int>(threadIdx.x);
  if (rest < n_valid) mine.take(load_pack<T, 1>(row + rest));
}

}  // namespace trireme
