// Attention forward by tiles of queries and keys with a running softmax (Milakov & Gimelshein, 2018; FlashAttention),
// and the merge of partial results.

#include "attention.h"

#include <omp.h>

#include <cmath>
#include <limits>

#include "../plan/flops.h"
#include "cpu_backend.h"
#include "parallel.h"
#include "reduce.h"
#include "vector_math.h"

namespace trireme::cpu {

namespace {

template <class R>
constexpr R k_infinity = std::numeric_limits<R>::infinity();

// One thread's memory.
template <class R>
struct ForwardScratch {
  R *scores, *out, *q, *k, *v;
  static std::int64_t size(std::int64_t D) { return k_q_tile * (k_k_tile + 2 * D) + 2 * k_k_tile * D; }
  ForwardScratch(R* memory, std::int64_t D)
      : scores(memory),
        out(scores + k_q_tile * k_k_tile),
        q(out + k_q_tile * D),
        k(q + k_q_tile * D),
        v(k + k_k_tile * D) {}
};

// Running maximum (of scaled scores) and sum of exponentials of every row of a tile.
template <class R>
struct RunningSoftmax {
  R max[k_q_tile];
  double sum[k_q_tile];
};

// Turns a row of scores into exp(scale s - max) on the visible columns [first, last) and 0 elsewhere, moving the row's
// running maximum; returns the factor of what was accumulated before.
template <class R>
R exponentiate_row(R* s, std::int64_t first, std::int64_t last, std::int64_t n, R scale, R& max, double& sum) {
  const R largest = std::max(max, scale * lane_max(s + first, last - first));
  const R factor = largest == max ? R(1) : std::exp(max - largest);
#pragma omp simd
  for (std::int64_t j = first; j < last; ++j) s[j] = vexp(scale * s[j] - largest);
  const R row_sum = lane_sum<R>(last - first, [from = s + first](std::int64_t j) { return from[j]; });
  std::fill(s, s + first, R(0));
  std::fill(s + last, s + n, R(0));
  sum = sum * static_cast<double>(factor) + static_cast<double>(row_sum);
  max = largest;
  return factor;
}

template <class R>
void scale_row(R* row, R factor, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
}

// Scores of keys [first, first + n) become probabilities up to the row factors; the output so far is rescaled.
template <class R>
void exponentiate_tile(const QueryTile& tile, ForwardScratch<R>& scratch, RunningSoftmax<R>& softmax,
                       std::int64_t first, std::int64_t n, R scale, std::int64_t D) {
  for (std::int64_t i = 0; i < tile.n; ++i) {
    const std::int64_t from = std::clamp<std::int64_t>(tile.rows[i].first - first, 0, n);
    const std::int64_t to = std::clamp<std::int64_t>(tile.rows[i].last - first, from, n);
    R* row = scratch.scores + i * k_k_tile;
    if (from == to) {
      std::fill(row, row + n, R(0));
      continue;
    }
    const R factor = exponentiate_row(row, from, to, n, scale, softmax.max[i], softmax.sum[i]);
    if (factor != R(1)) scale_row(scratch.out + i * D, factor, D);
  }
}

struct ForwardTensors {
  Tensor out, lse, q, k, v, doc_start;
};

template <class R>
void forward_tile(const ForwardTensors& a, const AttentionShape& s, std::int64_t b, std::int64_t h,
                  std::int64_t first_q, R* memory) {
  const std::int64_t D = s.head_dim, g = h / (s.query_heads / s.kv_heads);
  ForwardScratch<R> scratch(memory, D);
  const QueryTile tile = query_tile(s, a.doc_start, b, first_q);
  const std::int64_t q_row = b * s.q_stride + first_q;
  const auto q = read_tile(a.q, q_row, tile.n, h * D, D, scratch.q);
  RunningSoftmax<R> softmax;
  std::fill(softmax.max, softmax.max + tile.n, -k_infinity<R>);
  std::fill(softmax.sum, softmax.sum + tile.n, 0.0);
  std::fill(scratch.out, scratch.out + tile.n * D, R(0));
  for (std::int64_t j = tile.keys.first; j < tile.keys.last; j += k_k_tile) {
    const std::int64_t n = std::min(k_k_tile, tile.keys.last - j), k_row = b * s.k_stride + j;
    const auto k = read_tile(a.k, k_row, n, g * D, D, scratch.k);
    const auto v = read_tile(a.v, k_row, n, g * D, D, scratch.v);
    gemm(Op::plain, Op::transposed, tile.n, n, D, q, k, R(0), {scratch.scores, k_k_tile});
    exponentiate_tile(tile, scratch, softmax, j, n, static_cast<R>(s.scale), D);
    gemm(Op::plain, Op::plain, tile.n, D, n, {scratch.scores, k_k_tile}, v, R(1), {scratch.out, D});
  }
  for (std::int64_t i = 0; i < tile.n; ++i) {
    const bool empty = tile.rows[i].first == tile.rows[i].last;
    if (!empty) scale_row(scratch.out + i * D, static_cast<R>(1.0 / softmax.sum[i]), D);
    store(a.out, q_row + i, h * D, D, scratch.out + i * D);
    const R lse = empty ? -k_infinity<R> : softmax.max[i] + static_cast<R>(std::log(softmax.sum[i]));
    *address<R>(a.lse, b * s.query_heads + h, first_q + i) = lse;
  }
}

// out = out e^(lse - L) + part e^(part_lse - L), L = log(e^lse + e^part_lse)
template <class R>
void merge_row(const Tensor& out, const Tensor& part_out, R& lse, R part_lse, std::int64_t row, std::int64_t column,
               std::int64_t D) {
  const R largest = std::max(lse, part_lse);
  if (largest == -k_infinity<R>) return;
  const R mine = std::exp(lse - largest), other = std::exp(part_lse - largest), sum = mine + other;
  R out_buffer[k_block], part_buffer[k_block];
  const R* part = read(part_out, row, column, D, part_buffer);
  const R* old = read(out, row, column, D, out_buffer);
  R* to = target(out, row, column, out_buffer);
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) to[d] = old[d] * (mine / sum) + part[d] * (other / sum);
  store(out, row, column, D, to);
  lse = largest + std::log(sum);
}

}  // namespace

void CpuBackend::attention(Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor doc_start_T,
                           const AttentionShape& shape) {
  require(shape.head_dim <= k_block, "attention: heads of at most 1024 channels");
  counters_.attention_flops += attention_forward_flops(shape);
  const ForwardTensors tensors{out, lse, q, k, v, doc_start_T};
  const std::int64_t heads = shape.query_heads, tiles = div_up(shape.q_rows, k_q_tile);
  const std::int64_t tasks = shape.n_sequences * heads * tiles;
  with_real(q.dtype, [&]<class R>(R) {
    const std::int64_t size = ForwardScratch<R>::size(shape.head_dim);
    R* memory = workspace_.get<R>(Slot::attention, n_threads_ * size);
#pragma omp parallel for num_threads(n_threads_) schedule(dynamic) if (n_threads_ > 1 && tasks > 1)
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t bh = task / tiles;
      forward_tile(tensors, shape, bh / heads, bh % heads, task % tiles * k_q_tile,
                   memory + omp_get_thread_num() * size);
    }
  });
}

void CpuBackend::attention_merge(Tensor out, Tensor lse, Tensor part_out, Tensor part_lse,
                                 const AttentionShape& shape) {
  const std::int64_t D = shape.head_dim, heads = shape.query_heads;
  with_real(lse.dtype, [&]<class R>(R) {
    for_rows(n_threads_, shape.n_sequences * heads, shape.q_rows * D, [&](std::int64_t bh) {
      for (std::int64_t i = 0; i < shape.q_rows; ++i) {
        merge_row(out, part_out, *address<R>(lse, bh, i), *address<R>(part_lse, bh, i), bh / heads * shape.q_stride + i,
                  bh % heads * D, D);
      }
    });
  });
}

}  // namespace trireme::cpu
