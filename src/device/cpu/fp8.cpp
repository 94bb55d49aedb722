// FP8 on the CPU: the rounding of the GPU, bit for bit, and products of the widened values in f32. Written to be read,
// not to be fast: it is the specification of what the GPU does.

#include "trireme/base/fp8.h"

#include <cmath>

#include "../plan/flops.h"
#include "blas.h"
#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

// Largest magnitude of a row, NaN or infinity when one is among them.
float largest_of(const float* x, std::int64_t n) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    if (!(magnitude <= largest)) largest = magnitude;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

float scale_at(const Tensor& scale, std::int64_t i) {
  return scale.ptr<float>()[scale.count() == 1 ? 0 : i];
}

// q * scale, row by row.
Matrix<const float> widened(const Tensor& q, const Tensor& scale, Workspace& workspace, Slot slot, int threads) {
  float* wide = workspace.get<float>(slot, q.count());
  const std::int64_t columns = q.columns();
  for_rows(threads, q.rows(), columns, [&](std::int64_t r) {
    const float factor = scale_at(scale, r);
    const std::uint8_t* from = address<std::uint8_t>(q, r, 0);
    for (std::int64_t c = 0; c < columns; ++c) wide[r * columns + c] = widen_fp8(from[c], q.dtype) * factor;
  });
  return {wide, columns};
}

}  // namespace

void CpuBackend::quantize_rows(Tensor q_RC, Tensor scale_R, Tensor x_RC) {
  const std::int64_t columns = x_RC.columns();
  require(q_RC.rows() == x_RC.rows() && q_RC.columns() == columns && scale_R.count() == x_RC.rows(),
          "quantize_rows: q [R, C], scale [R], x [R, C]");
  float* wide = workspace_.get<float>(Slot::gemm_a, x_RC.count());
  for_rows(n_threads_, x_RC.rows(), columns, [&](std::int64_t r) {
    const float* x = read(x_RC, r, 0, columns, wide + r * columns);
    const float scale = fp8_scale(largest_of(x, columns), q_RC.dtype);
    scale_R.ptr<float>()[r] = scale;
    std::uint8_t* to = address<std::uint8_t>(q_RC, r, 0);
    for (std::int64_t c = 0; c < columns; ++c) to[c] = round_fp8(x[c] / scale, q_RC.dtype);
  });
}

void CpuBackend::transpose_quantized(Tensor q_CR, Tensor scale, Tensor q_RC, Tensor scale_R) {
  const std::int64_t rows = q_RC.rows(), columns = q_RC.columns();
  require(q_CR.rows() == columns && q_CR.columns() == rows && scale_R.count() == rows,
          "transpose_quantized: q [C, R], q [R, C], scale [R]");
  const float largest = largest_of(scale_R.ptr<float>(), rows);
  std::fill_n(scale.ptr<float>(), scale.count(), largest);
  for_rows(n_threads_, columns, rows, [&](std::int64_t c) {
    std::uint8_t* to = address<std::uint8_t>(q_CR, c, 0);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float factor = scale_R.ptr<float>()[r] / largest;
      to[r] = round_fp8(widen_fp8(*address<std::uint8_t>(q_RC, r, c), q_RC.dtype) * factor, q_RC.dtype);
    }
  });
}

void CpuBackend::matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor a_scale, Tensor b_NK, Tensor b_scale, Tensor bias_N,
                               Tensor addend_MN, Accumulation) {
  const std::int64_t M = a_MK.rows(), N = b_NK.rows(), K = a_MK.columns();
  require(d_MN.rows() == M && d_MN.columns() == N && b_NK.columns() == K,
          "matmul_scaled: d [M, N], a [M, K], b [N, K]");
  counters_.matmul_flops += matmul_flops(M, N, K);
  const auto a = widened(a_MK, a_scale, workspace_, Slot::gemm_a, n_threads_);
  const auto b = widened(b_NK, b_scale, workspace_, Slot::gemm_b, n_threads_);
  float* product = workspace_.get<float>(Slot::gemm_c, M * N);
  gemm(Op::plain, Op::transposed, M, N, K, a, b, 0.0F, Matrix<float>{product, N});
  for_rows(n_threads_, M, N, [&](std::int64_t r) {
    for_pieces(N, k_block, [&](std::int64_t first, std::int64_t n) {
      float buffer[k_block];
      float* sum = product + r * N + first;
      if (bias_N) {
        const float* bias = read(bias_N.as({1, N}), 0, first, n, buffer);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += bias[i];
      }
      if (addend_MN) {
        const float* addend = read(addend_MN, r, first, n, buffer);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += addend[i];
      }
      store(d_MN, r, first, n, sum);
    });
  });
}

}  // namespace trireme::cpu
