// Forward attention of our own: for every mask, offset and dtype of the contract. With scores S = scale q k^T:
//   lse_i = log sum_j exp S_ij,   out_i = sum_j exp(S_ij - lse_i) v_j,   in one pass with a running maximum.

#include "own_attention.cuh"

namespace trireme {

namespace {

template <int D>
__global__ void __launch_bounds__(k_attention_threads) forward_kernel(AttentionArgs a) {
  extern __shared__ float shared[];
  const AttentionShape& s = a.s;
  const int head_dim = static_cast<int>(s.head_dim), pitch = head_dim + 1;
  float *const q = shared, *const k = q + k_tile * pitch, *const v = k + k_tile * pitch, *const p = v + k_tile * pitch;
  const std::int64_t b = blockIdx.y / s.query_heads, h = blockIdx.y % s.query_heads, g = h * s.kv_heads / s.query_heads;
  const std::int64_t first_row = blockIdx.x * std::int64_t{k_tile};
  const int row = static_cast<int>(threadIdx.x) / k_lanes, lane = static_cast<int>(threadIdx.x) % k_lanes;
  const std::int64_t i = first_row + row, position = s.first_q + i;
  const bool exists = i < s.q_rows;
  const std::int64_t first_visible = exists ? a.first_visible(b, i) : 0;
  const auto scale = static_cast<float>(s.scale);

  fetch_tile(q, pitch, a.q, b * s.q_stride + first_row, s.q_rows - first_row, h * head_dim, head_dim);
  float out[D / k_lanes] = {}, maximum = -INFINITY, sum = 0.0F;
  const std::int64_t last_key = a.last_key(min(first_row + k_tile, s.q_rows));
  for (std::int64_t j0 = a.first_key(b, first_row) / k_tile * k_tile; j0 < last_key; j0 += k_tile) {
    __syncthreads();
    fetch_tile(k, pitch, a.k, b * s.k_stride + j0, s.k_rows - j0, g * head_dim, head_dim);
    fetch_tile(v, pitch, a.v, b * s.k_stride + j0, s.k_rows - j0, g * head_dim, head_dim);
    __syncthreads();
    float score[k_tile / k_lanes], top = maximum;
    row_products(score, q + row * pitch, k, pitch, head_dim);
#pragma unroll
    for (int n = 0; n < k_tile / k_lanes; ++n) {
      const std::int64_t j = j0 + lane + n * k_lanes, key_position = s.first_k + j;
      const bool visible = exists && j < s.k_rows && key_position <= position && key_position >= first_visible;
      score[n] = visible ? score[n] * scale : -INFINITY;
      top = fmaxf(top, score[n]);
    }
    for (int step = k_lanes / 2; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, step));
    const float shrink = top == -INFINITY ? 1.0F : expf(maximum - top);
    float part = 0.0F;
#pragma unroll
    for (int n = 0; n < k_tile / k_lanes; ++n) {
      const float e = score[n] == -INFINITY ? 0.0F : expf(score[n] - top);
      p[row * (k_tile + 1) + lane + n * k_lanes] = e;
      part += e;
    }
    sum = sum * shrink + group_sum(part, k_lanes);
    maximum = top;
    __syncwarp();  // a row of p is written and read by lanes of one warp
#pragma unroll
    for (int d = 0; d < D / k_lanes; ++d) out[d] *= shrink;
    for (int j = 0; j < k_tile; ++j) {
      const float e = p[row * (k_tile + 1) + j];
#pragma unroll
      for (int d = 0; d < D / k_lanes; ++d)
        if (lane + d * k_lanes < head_dim) out[d] += e * v[j * pitch + lane + d * k_lanes];
    }
  }
  if (!exists) return;
  const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
#pragma unroll
  for (int d = 0; d < D / k_lanes; ++d)
    if (lane + d * k_lanes < head_dim)
      a.out.put(b * s.q_stride + i, h * head_dim + lane + d * k_lanes, out[d] * inverse, false);
  if (lane == 0) a.lse.put(b * s.query_heads + h, i, sum > 0.0F ? maximum + logf(sum) : -INFINITY, false);
}

// (out, lse) of two disjoint sets of keys become those of their union; a warp takes one row of one head.
__global__ void merge_kernel(AttentionArgs a, View part_out, View part_lse) {
  const AttentionShape& s = a.s;
  const std::int64_t item = (blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x) / 32;
  if (item >= s.n_sequences * s.q_rows * s.query_heads) return;
  const std::int64_t h = item % s.query_heads, i = item / s.query_heads % s.q_rows, b = item / s.query_heads / s.q_rows;
  const float mine = a.lse.get(b * s.query_heads + h, i), other = part_lse.get(b * s.query_heads + h, i);
  if (other == -INFINITY) return;
  const float top = fmaxf(mine, other), lse = top + logf(expf(mine - top) + expf(other - top));
  const float mine_share = expf(mine - lse), other_share = expf(other - lse);
  const std::int64_t row = b * s.q_stride + i;
  for (std::int64_t d = h * s.head_dim + threadIdx.x % 32; d < (h + 1) * s.head_dim; d += 32)
    a.out.put(row, d, mine_share * a.out.get(row, d) + other_share * part_out.get(row, d), false);
  __syncwarp();
  if (threadIdx.x % 32 == 0) a.lse.put(b * s.query_heads + h, i, lse, false);
}

}  // namespace

void own_attention(cudaStream_t stream, const AttentionTensors& t, Tensor doc_start_T, const AttentionShape& shape) {
  const AttentionArgs args(t, doc_start_T, shape, false);
  const dim3 grid(static_cast<unsigned>(div_up(shape.q_rows, k_tile)),
                  static_cast<unsigned>(shape.n_sequences * shape.query_heads));
  by_head_size(shape.head_dim, [&](auto size) {
    constexpr int d = decltype(size)::value;
    const auto shared =
        static_cast<std::size_t>(3 * k_tile * (shape.head_dim + 1) + k_tile * (k_tile + 1)) * sizeof(float);
    allow_shared(forward_kernel<d>, shared);
    forward_kernel<d><<<grid, k_attention_threads, shared, stream>>>(args);
  });
  check_launch();
}

void CudaBackend::attention_merge(Tensor out, Tensor lse, Tensor part_out, Tensor part_lse,
                                  const AttentionShape& shape) {
  const std::int64_t items = shape.n_sequences * shape.q_rows * shape.query_heads;
  if (items == 0) return;
  AttentionTensors t;
  t.out = out;
  t.lse = lse;
  const AttentionArgs args(t, {}, shape, false);
  merge_kernel<<<static_cast<unsigned>(div_up(items, 8)), 256, 0, stream_>>>(args, View(part_out), View(part_lse));
  check_launch();
}

}  // namespace trireme
