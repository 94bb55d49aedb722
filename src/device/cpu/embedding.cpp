#include <algorithm>

#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"

namespace trireme::cpu {

void CpuBackend::embed(Tensor y_TC, Tensor table_VC, Tensor ids_T, std::int64_t first_row, Into into) {
  const std::int64_t C = y_TC.columns();
  with_real(table_VC.dtype, [&]<class R>(R) {
    for_rows(n_threads_, y_TC.rows(), C, [&](std::int64_t t) {
      const std::int64_t row = ids_T.ptr<std::int32_t>()[t] - first_row;
      const bool here = row >= 0 && row < table_VC.rows();
      if (!here && into == Into::add) return;
      R values[k_block], buffer[k_block];
      for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
        if (here) {
          const R* from = read(table_VC, row, c, n, buffer);
          std::copy(from, from + n, values);
        } else {
          std::fill(values, values + n, R(0));
        }
        store_into(y_TC, t, c, n, values, into);
      });
    });
  });
}

namespace {

// Local rows and tokens as row * 2^32 + t, in order: equal ids become neighbours and keep the order of t.
std::int64_t sort_by_row(std::int64_t* keys, const Tensor& ids_T, std::int64_t first_row, std::int64_t rows) {
  std::int64_t n = 0;
  for (std::int64_t t = 0; t < ids_T.count(); ++t) {
    const std::int64_t row = ids_T.ptr<std::int32_t>()[t] - first_row;
    if (row >= 0 && row < rows) keys[n++] = (row << 32) | t;
  }
  std::sort(keys, keys + n);
  return n;
}

}  // namespace

// A table row receives the sum over its tokens, in the order of t, in one addition. Threads share the columns.
void CpuBackend::embed_backward(Tensor dtable_VC, Tensor dy_TC, Tensor ids_T, std::int64_t first_row) {
  if (ids_T.count() == 0) return;
  auto* keys = workspace_.get<std::int64_t>(Slot::order, ids_T.count());
  const std::int64_t n_keys = sort_by_row(keys, ids_T, first_row, dtable_VC.rows());
  const std::int64_t C = dy_TC.columns(), strip = std::clamp<std::int64_t>(div_up(C, n_threads_), 64, k_block);
  with_real(dy_TC.dtype, [&]<class R>(R) {
    for_blocks(n_threads_, C, strip, [&](std::int64_t first, std::int64_t last) {
      R sums[k_block], buffer[k_block];
      const std::int64_t n = last - first;
      for (std::int64_t i = 0; i < n_keys;) {
        const std::int64_t row = keys[i] >> 32;
        std::fill(sums, sums + n, R(0));
        for (; i < n_keys && keys[i] >> 32 == row; ++i) {
          const R* dy = read(dy_TC, keys[i] & 0xffffffff, first, n, buffer);
#pragma omp simd
          for (std::int64_t c = 0; c < n; ++c) sums[c] += dy[c];
        }
        store_into(dtable_VC, row, first, n, sums, Into::add);
      }
    });
  });
}

}  // namespace trireme::cpu
