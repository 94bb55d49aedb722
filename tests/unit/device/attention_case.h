#pragma once
// One attention problem with its tensors as columns of fused ones, and the plain answer in double.

#include <cmath>

#include "bench.h"

namespace trireme {

struct AttentionCase {
  AttentionShape shape;
  Tensor q, k, v, out, lse, doc_start;
};

inline AttentionShape attention_shape(std::int64_t sequences, std::int64_t rows, std::int64_t H, std::int64_t G,
                                      std::int64_t D) {
  AttentionShape s;
  s.n_sequences = sequences;
  s.query_heads = H;
  s.kv_heads = G;
  s.head_dim = D;
  s.q_rows = s.q_stride = s.k_rows = s.k_stride = rows;
  s.scale = 1 / std::sqrt(static_cast<double>(D));
  return s;
}

inline AttentionCase make_attention(Bench& bench, const AttentionShape& s, DType out_dtype) {
  const std::int64_t qT = s.n_sequences * s.q_stride, kT = s.n_sequences * s.k_stride;
  const std::int64_t q_width = s.query_heads * s.head_dim, k_width = s.kv_heads * s.head_dim;
  AttentionCase c;
  c.shape = s;
  c.q = bench.random({qT, q_width + 3}).slice_columns(1, q_width);
  const Tensor kv = bench.random({kT, 2 * k_width});
  c.k = kv.slice_columns(0, k_width);
  c.v = kv.slice_columns(k_width, k_width);
  c.out = bench.nan(out_dtype, {qT, q_width + 2}).slice_columns(1, q_width);
  c.lse = bench.nan(bench.acc(), {s.n_sequences * s.query_heads, s.q_rows + 1}).slice_columns(0, s.q_rows);
  return c;
}

// Documents of `length` tokens: the first position of each query's own.
inline Tensor documents(Bench& bench, const AttentionShape& s, std::int64_t length) {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(s.n_sequences * s.q_stride));
  for (std::int64_t b = 0; b < s.n_sequences; ++b) {
    for (std::int64_t i = 0; i < s.q_rows; ++i) {
      starts[static_cast<std::size_t>(b * s.q_stride + i)] =
          static_cast<std::int32_t>((s.first_q + i + b) / length * length);
    }
  }
  return bench.ids(starts);
}

inline bool sees(const AttentionCase& c, std::int64_t b, std::int64_t i, std::int64_t j) {
  const AttentionShape& s = c.shape;
  const std::int64_t query = s.first_q + i, key = s.first_k + j;
  const bool in_window = s.window == 0 || key > query - s.window;
  const bool in_document = !c.doc_start || key >= c.doc_start.ptr<std::int32_t>()[b * s.q_stride + i];
  return key <= query && in_window && in_document;
}

struct PlainAttention {
  Numbers out, lse;
};

// Rows of out that belong to no query are 0.
inline PlainAttention plain_attention(Bench& bench, const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  const Numbers q = bench.read(c.q), k = bench.read(c.k), v = bench.read(c.v);
  const std::int64_t H = s.query_heads, G = s.kv_heads, D = s.head_dim;
  PlainAttention answer{Numbers(q.size()), {}};
  for (std::int64_t bh = 0; bh < s.n_sequences * H; ++bh) {
    const std::int64_t b = bh / H, h = bh % H, g = h / (H / G);
    for (std::int64_t i = 0; i < s.q_rows; ++i) {
      const double* query = &q[static_cast<std::size_t>((b * s.q_stride + i) * H * D + h * D)];
      double* out = &answer.out[static_cast<std::size_t>((b * s.q_stride + i) * H * D + h * D)];
      double sum = 0;
      for (std::int64_t j = 0; j < s.k_rows; ++j) {
        if (!sees(c, b, i, j)) continue;
        const auto row = static_cast<std::size_t>((b * s.k_stride + j) * G * D + g * D);
        double score = 0;
        for (std::int64_t d = 0; d < D; ++d) score += query[d] * k[row + static_cast<std::size_t>(d)];
        const double p = std::exp(s.scale * score);
        sum += p;
        for (std::int64_t d = 0; d < D; ++d) out[d] += p * v[row + static_cast<std::size_t>(d)];
      }
      for (std::int64_t d = 0; d < D && sum > 0; ++d) out[d] /= sum;
      answer.lse.push_back(std::log(sum));
    }
  }
  return answer;
}

// -infinity where nothing is visible would spoil differences: it becomes -1000 on both sides.
inline Numbers finite(Numbers lse) {
  for (double& x : lse) x = std::isinf(x) && x < 0 ? -1000 : x;
  return lse;
}

}  // namespace trireme
