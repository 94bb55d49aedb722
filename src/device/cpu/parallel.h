#pragma once
// Loops over ranges on the backend's threads. Which thread takes which block never changes a result.

#include <algorithm>
#include <cstdint>

#include "trireme/base/check.h"

namespace trireme::cpu {

// f(first, last) for consecutive blocks of [0, n).
template <class F>
void for_blocks(int threads, std::int64_t n, std::int64_t block, const F& f) {
  const std::int64_t blocks = div_up(n, block);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && blocks > 1)
  for (std::int64_t b = 0; b < blocks; ++b) f(b * block, std::min(n, (b + 1) * block));
}

// f(row) for rows of `columns` elements; small matrices stay on the calling thread.
template <class F>
void for_rows(int threads, std::int64_t rows, std::int64_t columns, const F& f) {
  constexpr std::int64_t k_worth_it = 16384;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && rows * columns > k_worth_it)
  for (std::int64_t r = 0; r < rows; ++r) f(r);
}

// f(first column, count) for the pieces of a row that fit the kernels' buffers.
template <class F>
void for_pieces(std::int64_t columns, std::int64_t piece, const F& f) {
  for (std::int64_t c = 0; c < columns; c += piece) f(c, std::min(piece, columns - c));
}

}  // namespace trireme::cpu
