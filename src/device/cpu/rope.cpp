#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

// (a, b) = (a cos - b sin, b cos + a sin) for the pairs (i, i + half); sign = -1 turns back.
template <class R>
void rotate(R* x, const R* table, R sign, std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const R c = table[2 * i], s = sign * table[2 * i + 1];
    const R a = x[i], b = x[i + half];
    x[i] = a * c - b * s;
    x[i + half] = b * c + a * s;
  }
}

}  // namespace

void CpuBackend::rope(Tensor x, Tensor position_T, Tensor table, std::int64_t head_dim, bool backward) {
  const std::int64_t half = table.shape[1], heads = div_exact(x.columns(), head_dim);
  require(2 * half <= head_dim && head_dim <= k_block, "rope: the table turns more columns than a head has");
  with_real(x.dtype, [&]<class R>(R) {
    const R sign = backward ? R(-1) : R(1);
    for_rows(n_threads_, x.rows(), x.columns(), [&](std::int64_t t) {
      const R* angles = address<R>(table, position_T.ptr<std::int32_t>()[t], 0);
      for (std::int64_t h = 0; h < heads; ++h) {
        R buffer[k_block];
        read(x, t, h * head_dim, 2 * half, buffer);
        R* head = target(x, t, h * head_dim, buffer);
        rotate(head, angles, sign, half);
        store(x, t, h * head_dim, 2 * half, head);
      }
    });
  });
}

}  // namespace trireme::cpu
