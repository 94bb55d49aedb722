// Attention backward from lse, tile by tile. With P = exp(scale q k^T - lse) and delta_i = dout_i . out_i:
//   dv += P^T dout;  dP = dout v^T;  dS = P (dP - delta) scale;  dq += dS k;  dk += dS^T q.
// One task is a sequence and a key head with all its query heads, so that dk and dv are summed in one order.

#include <omp.h>

#include "../plan/flops.h"
#include "attention.h"
#include "cpu_backend.h"
#include "parallel.h"
#include "reduce.h"
#include "vector_math.h"

namespace trireme::cpu {

namespace {

struct BackwardTensors {
  Tensor dq, dk, dv, dout, out, lse, q, k, v, doc_start;
};

// One thread's memory.
template <class R>
struct BackwardScratch {
  R *p, *dp, *q, *dout, *dq, *k, *v, *dk, *dv;
  static std::int64_t size(std::int64_t D, std::int64_t k_rows) {
    return k_q_tile * (2 * k_k_tile + 3 * D) + 2 * k_k_tile * D + 2 * k_rows * D;
  }
  BackwardScratch(R* memory, std::int64_t D, std::int64_t k_rows)
      : p(memory),
        dp(p + k_q_tile * k_k_tile),
        q(dp + k_q_tile * k_k_tile),
        dout(q + k_q_tile * D),
        dq(dout + k_q_tile * D),
        k(dq + k_q_tile * D),
        v(k + k_k_tile * D),
        dk(v + k_k_tile * D),
        dv(dk + k_rows * D) {}
};

// delta_i = dout_i . out_i
template <class R>
R row_delta(const R* dout, const Tensor& out, std::int64_t row, std::int64_t column, std::int64_t D) {
  R buffer[k_block];
  const R* o = read(out, row, column, D, buffer);
  return lane_sum<R>(D, [dout, o](std::int64_t d) { return dout[d] * o[d]; });
}

// p: scores in, probabilities out; zero outside the columns [first, last) of n.
template <class R>
void probability_row(R* p, std::int64_t first, std::int64_t last, std::int64_t n, R scale, R lse) {
#pragma omp simd
  for (std::int64_t j = first; j < last; ++j) p[j] = vexp(scale * p[j] - lse);
  std::fill(p, p + first, R(0));
  std::fill(p + last, p + n, R(0));
}

// dp: dP in, dS out
template <class R>
void score_gradient_row(R* dp, const R* p, R delta, R scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - delta) * scale;
}

template <class R>
void backward_keys(const BackwardTensors& a, const AttentionShape& s, const QueryTile& tile, Matrix<const R> q,
                   Matrix<const R> dout, const R* lse, const R* delta, std::int64_t b, std::int64_t g,
                   std::int64_t first, BackwardScratch<R>& scratch) {
  const std::int64_t D = s.head_dim, n = std::min(k_k_tile, tile.keys.last - first), k_row = b * s.k_stride + first;
  const auto k = read_tile(a.k, k_row, n, g * D, D, scratch.k);
  const auto v = read_tile(a.v, k_row, n, g * D, D, scratch.v);
  const Matrix<R> p{scratch.p, k_k_tile}, dp{scratch.dp, k_k_tile};
  const Matrix<const R> p_read{scratch.p, k_k_tile}, ds_read{scratch.dp, k_k_tile};
  const R scale = static_cast<R>(s.scale);
  gemm(Op::plain, Op::transposed, tile.n, n, D, q, k, R(0), p);
  gemm(Op::plain, Op::transposed, tile.n, n, D, dout, v, R(0), dp);
  for (std::int64_t i = 0; i < tile.n; ++i) {
    const std::int64_t from = std::clamp<std::int64_t>(tile.rows[i].first - first, 0, n);
    const std::int64_t to = std::clamp<std::int64_t>(tile.rows[i].last - first, from, n);
    probability_row(p.data + i * k_k_tile, from, to, n, scale, lse[i]);
    score_gradient_row(dp.data + i * k_k_tile, p.data + i * k_k_tile, delta[i], scale, n);
  }
  gemm(Op::transposed, Op::plain, n, D, tile.n, p_read, dout, R(1), {scratch.dv + first * D, D});
  gemm(Op::plain, Op::plain, tile.n, D, n, ds_read, k, R(1), {scratch.dq, D});
  gemm(Op::transposed, Op::plain, n, D, tile.n, ds_read, q, R(1), {scratch.dk + first * D, D});
}

template <class R>
void backward_queries(const BackwardTensors& a, const AttentionShape& s, std::int64_t b, std::int64_t h,
                      std::int64_t first_q, BackwardScratch<R>& scratch, Into into) {
  const std::int64_t D = s.head_dim, q_row = b * s.q_stride + first_q;
  const QueryTile tile = query_tile(s, a.doc_start, b, first_q);
  const auto q = read_tile(a.q, q_row, tile.n, h * D, D, scratch.q);
  const auto dout = read_tile(a.dout, q_row, tile.n, h * D, D, scratch.dout);
  R delta[k_q_tile];
  for (std::int64_t i = 0; i < tile.n; ++i) delta[i] = row_delta(dout.data + i * dout.ld, a.out, q_row + i, h * D, D);
  std::fill(scratch.dq, scratch.dq + tile.n * D, R(0));
  const R* lse = address<R>(a.lse, b * s.query_heads + h, first_q);
  const std::int64_t g = h / (s.query_heads / s.kv_heads);
  for (std::int64_t j = tile.keys.first; j < tile.keys.last; j += k_k_tile) {
    backward_keys(a, s, tile, q, dout, lse, delta, b, g, j, scratch);
  }
  for (std::int64_t i = 0; i < tile.n; ++i) store_into(a.dq, q_row + i, h * D, D, scratch.dq + i * D, into);
}

template <class R>
void backward_key_head(const BackwardTensors& a, const AttentionShape& s, std::int64_t b, std::int64_t g, R* memory,
                       Into into) {
  const std::int64_t D = s.head_dim, group = s.query_heads / s.kv_heads;
  BackwardScratch<R> scratch(memory, D, s.k_rows);
  std::fill(scratch.dk, scratch.dk + s.k_rows * D, R(0));
  std::fill(scratch.dv, scratch.dv + s.k_rows * D, R(0));
  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
    for (std::int64_t i = 0; i < s.q_rows; i += k_q_tile) backward_queries(a, s, b, h, i, scratch, into);
  }
  for (std::int64_t j = 0; j < s.k_rows; ++j) {
    store_into(a.dk, b * s.k_stride + j, g * D, D, scratch.dk + j * D, into);
    store_into(a.dv, b * s.k_stride + j, g * D, D, scratch.dv + j * D, into);
  }
}

}  // namespace

void CpuBackend::attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                                    Tensor k, Tensor v, Tensor doc_start_T, const AttentionShape& shape, Into into) {
  require(shape.head_dim <= k_block, "attention_backward: heads of at most 1024 channels");
  counters_.attention_flops += attention_backward_flops(shape);
  const BackwardTensors tensors{dq, dk, dv, dout, out, lse, q, k, v, doc_start_T};
  const std::int64_t tasks = shape.n_sequences * shape.kv_heads;
  with_real(q.dtype, [&]<class R>(R) {
    const std::int64_t size = BackwardScratch<R>::size(shape.head_dim, shape.k_rows);
    R* memory = workspace_.get<R>(Slot::attention, n_threads_ * size);
#pragma omp parallel for num_threads(n_threads_) schedule(dynamic) if (n_threads_ > 1 && tasks > 1)
    for (std::int64_t task = 0; task < tasks; ++task) {
      backward_key_head(tensors, shape, task / shape.kv_heads, task % shape.kv_heads,
                        memory + omp_get_thread_num() * size, into);
    }
  });
}

}  // namespace trireme::cpu
