// Backward attention of our own. With P_ij = exp(S_ij - lse_i), D_i = sum_d dout_id out_id, dP = dout v^T:
//   dv_j = sum_i P_ij dout_i,  dS_ij = P_ij (dP_ij - D_i),  dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i dS_ij q_i
// Two kernels that both recompute P, one over queries and one over keys, so that every sum has one owner and one order.

#include "own_attention.cuh"

namespace trireme {

namespace {

// D_i of my row, summed by its eight lanes.
__device__ inline float row_delta(const AttentionArgs& a, std::int64_t row, std::int64_t column, bool exists) {
  float delta = 0.0F;
  if (exists) {
    for (std::int64_t d = threadIdx.x % k_lanes; d < a.s.head_dim; d += k_lanes)
      delta += a.dout.get(row, column + d) * a.out.get(row, column + d);
  }
  return group_sum(delta, k_lanes);
}

template <int D>
__global__ void __launch_bounds__(k_attention_threads) dq_kernel(AttentionArgs a) {
  extern __shared__ float shared[];
  const AttentionShape& s = a.s;
  const int head_dim = static_cast<int>(s.head_dim), pitch = head_dim + 1;
  float *const q = shared, *const dout = q + k_tile * pitch, *const k = dout + k_tile * pitch,
               *const v = k + k_tile * pitch;
  float* const ds = v + k_tile * pitch;
  const std::int64_t b = blockIdx.y / s.query_heads, h = blockIdx.y % s.query_heads, g = h * s.kv_heads / s.query_heads;
  const std::int64_t first_row = blockIdx.x * std::int64_t{k_tile}, q_row = b * s.q_stride + first_row;
  const int row = static_cast<int>(threadIdx.x) / k_lanes, lane = static_cast<int>(threadIdx.x) % k_lanes;
  const std::int64_t i = first_row + row, position = s.first_q + i;
  const bool exists = i < s.q_rows;
  const float lse = exists ? a.lse.get(b * s.query_heads + h, i) : -INFINITY;
  const float delta = row_delta(a, q_row + row, h * head_dim, exists);
  const std::int64_t first_visible = exists ? a.first_visible(b, i) : 0;
  const auto scale = static_cast<float>(s.scale);

  fetch_tile(q, pitch, a.q, q_row, s.q_rows - first_row, h * head_dim, head_dim);
  fetch_tile(dout, pitch, a.dout, q_row, s.q_rows - first_row, h * head_dim, head_dim);
  float dq[D / k_lanes] = {};
  const std::int64_t last_key = a.last_key(min(first_row + k_tile, s.q_rows));
  for (std::int64_t j0 = a.first_key(b, first_row) / k_tile * k_tile; j0 < last_key; j0 += k_tile) {
    __syncthreads();
    fetch_tile(k, pitch, a.k, b * s.k_stride + j0, s.k_rows - j0, g * head_dim, head_dim);
    fetch_tile(v, pitch, a.v, b * s.k_stride + j0, s.k_rows - j0, g * head_dim, head_dim);
    __syncthreads();
    float score[k_tile / k_lanes], dp[k_tile / k_lanes];
    row_products(score, q + row * pitch, k, pitch, head_dim);
    row_products(dp, dout + row * pitch, v, pitch, head_dim);
#pragma unroll
    for (int n = 0; n < k_tile / k_lanes; ++n) {
      const std::int64_t j = j0 + lane + n * k_lanes, key_position = s.first_k + j;
      const bool visible =
          lse != -INFINITY && j < s.k_rows && key_position <= position && key_position >= first_visible;
      ds[row * (k_tile + 1) + lane + n * k_lanes] =
          visible ? expf(score[n] * scale - lse) * (dp[n] - delta) * scale : 0.0F;
    }
    __syncwarp();
    for (int j = 0; j < k_tile; ++j) {
      const float x = ds[row * (k_tile + 1) + j];
#pragma unroll
      for (int d = 0; d < D / k_lanes; ++d)
        if (lane + d * k_lanes < head_dim) dq[d] += x * k[j * pitch + lane + d * k_lanes];
    }
  }
  if (!exists) return;
#pragma unroll
  for (int d = 0; d < D / k_lanes; ++d)
    if (lane + d * k_lanes < head_dim) a.dq.put(q_row + row, h * head_dim + lane + d * k_lanes, dq[d], a.add);
}

// The tile is transposed: a thread's row is a key, its columns are queries. Query heads of one group follow each other.
template <int D>
__global__ void __launch_bounds__(k_attention_threads) dkv_kernel(AttentionArgs a) {
  extern __shared__ float shared[];
  const AttentionShape& s = a.s;
  const int head_dim = static_cast<int>(s.head_dim), pitch = head_dim + 1;
  float *const q = shared, *const dout = q + k_tile * pitch, *const k = dout + k_tile * pitch,
               *const v = k + k_tile * pitch;
  float *const p = v + k_tile * pitch, *const ds = p + k_tile * (k_tile + 1);
  float *const lse = ds + k_tile * (k_tile + 1), *const delta = lse + k_tile;
  const std::int64_t b = blockIdx.y / s.kv_heads, g = blockIdx.y % s.kv_heads, group = s.query_heads / s.kv_heads;
  const std::int64_t first_row = blockIdx.x * std::int64_t{k_tile}, k_row = b * s.k_stride + first_row;
  const int row = static_cast<int>(threadIdx.x) / k_lanes, lane = static_cast<int>(threadIdx.x) % k_lanes;
  const std::int64_t j = first_row + row, key_position = s.first_k + j;
  const auto scale = static_cast<float>(s.scale);

  fetch_tile(k, pitch, a.k, k_row, s.k_rows - first_row, g * head_dim, head_dim);
  fetch_tile(v, pitch, a.v, k_row, s.k_rows - first_row, g * head_dim, head_dim);
  float dk[D / k_lanes] = {}, dv[D / k_lanes] = {};
  // the first query that stands at or after the first key of this tile, and the last that still sees its last key
  const std::int64_t first_query = max(std::int64_t{0}, s.first_k + first_row - s.first_q) / k_tile * k_tile;
  const std::int64_t last_query =
      s.window > 0 ? min(s.q_rows, s.first_k + first_row + k_tile - 1 + s.window - s.first_q) : s.q_rows;
  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
    for (std::int64_t i0 = first_query; i0 < last_query; i0 += k_tile) {
      if (a.first_visible(b, i0) > s.first_k + first_row + k_tile - 1) break;  // later documents
      __syncthreads();
      const std::int64_t q_row = b * s.q_stride + i0;
      fetch_tile(q, pitch, a.q, q_row, s.q_rows - i0, h * head_dim, head_dim);
      fetch_tile(dout, pitch, a.dout, q_row, s.q_rows - i0, h * head_dim, head_dim);
      const bool exists = i0 + row < s.q_rows;  // here my row stands for a query
      const float my_delta = row_delta(a, q_row + row, h * head_dim, exists);
      if (lane == 0) {
        delta[row] = my_delta;
        lse[row] = exists ? a.lse.get(b * s.query_heads + h, i0 + row) : -INFINITY;
      }
      __syncthreads();
      float score[k_tile / k_lanes], dp[k_tile / k_lanes];
      row_products(score, k + row * pitch, q, pitch, head_dim);
      row_products(dp, v + row * pitch, dout, pitch, head_dim);
#pragma unroll
      for (int n = 0; n < k_tile / k_lanes; ++n) {
        const int column = lane + n * k_lanes;
        const std::int64_t i = i0 + column;
        const bool visible = i < s.q_rows && j < s.k_rows && lse[column] != -INFINITY &&
                             key_position <= s.first_q + i && key_position >= a.first_visible(b, i);
        const float weight = visible ? expf(score[n] * scale - lse[column]) : 0.0F;
        p[row * (k_tile + 1) + column] = weight;
        ds[row * (k_tile + 1) + column] = weight * (dp[n] - delta[column]) * scale;
      }
      __syncwarp();
      for (int n = 0; n < k_tile; ++n) {
        const float weight = p[row * (k_tile + 1) + n], x = ds[row * (k_tile + 1) + n];
#pragma unroll
        for (int d = 0; d < D / k_lanes; ++d) {
          if (lane + d * k_lanes >= head_dim) continue;
          dv[d] += weight * dout[n * pitch + lane + d * k_lanes];
          dk[d] += x * q[n * pitch + lane + d * k_lanes];
        }
      }
    }
  }
  if (j >= s.k_rows) return;
#pragma unroll
  for (int d = 0; d < D / k_lanes; ++d) {
    if (lane + d * k_lanes >= head_dim) continue;
    a.dk.put(k_row + row, g * head_dim + lane + d * k_lanes, dk[d], a.add);
    a.dv.put(k_row + row, g * head_dim + lane + d * k_lanes, dv[d], a.add);
  }
}

}  // namespace

void own_attention_backward(cudaStream_t stream, const AttentionTensors& t, Tensor doc_start_T,
                            const AttentionShape& shape, Into into) {
  const AttentionArgs args(t, doc_start_T, shape, into == Into::add);
  const dim3 q_grid(static_cast<unsigned>(div_up(shape.q_rows, k_tile)),
                    static_cast<unsigned>(shape.n_sequences * shape.query_heads));
  const dim3 k_grid(static_cast<unsigned>(div_up(shape.k_rows, k_tile)),
                    static_cast<unsigned>(shape.n_sequences * shape.kv_heads));
  by_head_size(shape.head_dim, [&](auto size) {
    constexpr int d = decltype(size)::value;
    const auto shared =
        static_cast<std::size_t>(4 * k_tile * (shape.head_dim + 1) + 2 * k_tile * (k_tile + 1) + 2 * k_tile) *
        sizeof(float);
    allow_shared(dq_kernel<d>, shared);
    allow_shared(dkv_kernel<d>, shared);
    if (shape.q_rows > 0) dq_kernel<d><<<q_grid, k_attention_threads, shared, stream>>>(args);
    check_launch();
    if (shape.k_rows > 0) dkv_kernel<d><<<k_grid, k_attention_threads, shared, stream>>>(args);
  });
  check_launch();
}

}  // namespace trireme
