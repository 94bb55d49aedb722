#pragma once
// What the kernels of our own attention share: the tile sizes, one call's arguments, the mask, tiles in shared memory.

#include "kernels.cuh"
#include "own_attention.h"

namespace trireme {

// A block of 256 threads works on 32 queries and 32 keys: thread t has row t/8 of the tile, and every eighth column
// from t%8.
inline constexpr int k_tile = 32;
inline constexpr int k_attention_threads = 256;
inline constexpr int k_lanes = 8;

struct View {
  std::byte* data;
  std::int64_t pitch;
  DType dtype;
  explicit View(const Tensor& t) : data(t.data), pitch(t.pitch), dtype(t.dtype) {}
  __device__ float get(std::int64_t row, std::int64_t column) const {
    return load_any(data, dtype, row * pitch + column);
  }
  __device__ void put(std::int64_t row, std::int64_t column, float x, bool add) const {
    const std::int64_t at = row * pitch + column;
    store_any(data, dtype, at, add ? load_any(data, dtype, at) + x : x);
  }
};

struct AttentionArgs {
  View q, k, v, out, lse, dout, dq, dk, dv;
  const std::int32_t* doc_start_T;
  AttentionShape s;
  bool add;

  AttentionArgs(const AttentionTensors& t, const Tensor& doc_start, const AttentionShape& shape, bool add)
      : q(t.q),
        k(t.k),
        v(t.v),
        out(t.out),
        lse(t.lse),
        dout(t.dout),
        dq(t.dq),
        dk(t.dk),
        dv(t.dv),
        doc_start_T(doc_start.ptr<std::int32_t>()),
        s(shape),
        add(add) {}

  // First key position that query row i of sequence b may see.
  __device__ std::int64_t first_visible(std::int64_t b, std::int64_t i) const {
    std::int64_t first = s.window > 0 ? s.first_q + i - s.window + 1 : s.first_k;
    if (doc_start_T != nullptr) first = max(first, static_cast<std::int64_t>(doc_start_T[b * s.q_stride + i]));
    return first;
  }
  // Keys [first, last) that some query of rows [i0, i1) of sequence b may see: what row i0 does not see, later rows do
  // not see either.
  __device__ std::int64_t first_key(std::int64_t b, std::int64_t i0) const {
    return max(std::int64_t{0}, first_visible(b, i0) - s.first_k);
  }
  __device__ std::int64_t last_key(std::int64_t i1) const { return min(s.k_rows, s.first_q + i1 - s.first_k); }
};

// Copies rows [first, first + 32) of a head into shared memory, `columns` floats per row at distance `pitch`; zeros
// outside.
__device__ inline void fetch_tile(float* tile, int pitch, const View& view, std::int64_t row, std::int64_t rows_left,
                                  std::int64_t column, int columns) {
  for (int i = static_cast<int>(threadIdx.x); i < k_tile * columns; i += k_attention_threads) {
    const int r = i / columns, c = i - r * columns;
    tile[r * pitch + c] = r < rows_left ? view.get(row + r, column + c) : 0.0F;
  }
}

// Products of my row of `a` with rows lane, lane + 8, ... of `b`.
__device__ inline void row_products(float (&p)[k_tile / k_lanes], const float* a_row, const float* b, int pitch,
                                    int columns) {
  const int lane = static_cast<int>(threadIdx.x) % k_lanes;
#pragma unroll
  for (int j = 0; j < k_tile / k_lanes; ++j) p[j] = 0.0F;
  for (int c = 0; c < columns; ++c) {
    const float x = a_row[c];
#pragma unroll
    for (int j = 0; j < k_tile / k_lanes; ++j) p[j] += x * b[(lane + j * k_lanes) * pitch + c];
  }
}

// Largest head size in classes of 64: what a thread keeps in registers is a whole number of elements per lane.
template <class F>
void by_head_size(std::int64_t head_dim, F&& f) {
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  require(head_dim <= 256, "our own attention holds at most 256 channels per head");
  f(std::integral_constant<int, 256>{});
}

template <class Kernel>
void allow_shared(Kernel kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace trireme
