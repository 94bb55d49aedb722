#pragma once
// What the forward and the backward pass of attention share: which keys a query sees, and tiles of strided tensors.
// Legend: b sequence, h query head, g = h / (H/G) key head, q and k rows counted inside one sequence of the call.

#include <algorithm>
#include <cstdint>

#include "blas.h"
#include "storage.h"
#include "trireme/device/backend.h"

namespace trireme::cpu {

inline constexpr std::int64_t k_q_tile = 64, k_k_tile = 256;

// Keys [first, last) that one query sees; empty when first == last.
struct Visible {
  std::int64_t first = 0, last = 0;
};

inline Visible visible(const AttentionShape& s, const Tensor& doc_start_T, std::int64_t b, std::int64_t i) {
  const std::int64_t position = s.first_q + i;
  std::int64_t first = s.first_k;
  if (s.window > 0) first = std::max(first, position - s.window + 1);
  if (doc_start_T) first = std::max<std::int64_t>(first, doc_start_T.ptr<std::int32_t>()[b * s.q_stride + i]);
  const std::int64_t last = std::clamp<std::int64_t>(position + 1 - s.first_k, 0, s.k_rows);
  return {std::min(first - s.first_k, last), last};
}

// One tile of queries: rows [first, first + n) of sequence b and the keys any of them sees.
struct QueryTile {
  std::int64_t first = 0, n = 0;
  Visible rows[k_q_tile], keys;
};

inline QueryTile query_tile(const AttentionShape& s, const Tensor& doc_start_T, std::int64_t b, std::int64_t first) {
  QueryTile tile;
  tile.first = first;
  tile.n = std::min(k_q_tile, s.q_rows - first);
  tile.keys = {s.k_rows, 0};
  for (std::int64_t i = 0; i < tile.n; ++i) {
    tile.rows[i] = visible(s, doc_start_T, b, first + i);
    if (tile.rows[i].first == tile.rows[i].last) continue;
    tile.keys.first = std::min(tile.keys.first, tile.rows[i].first);
    tile.keys.last = std::max(tile.keys.last, tile.rows[i].last);
  }
  tile.keys.first = std::min(tile.keys.first, tile.keys.last);
  return tile;
}

// Rows [row, row + rows) and columns [column, column + columns) of t as R: in place, or widened into `buffer`.
template <class R>
Matrix<const R> read_tile(const Tensor& t, std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns, R* buffer) {
  if (t.dtype == k_dtype_of<R>) return {address<R>(t, row, column), t.pitch};
  for (std::int64_t r = 0; r < rows; ++r) read(t, row + r, column, columns, buffer + r * columns);
  return {buffer, columns};
}

}  // namespace trireme::cpu
