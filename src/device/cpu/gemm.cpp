// The three products of a linear layer. Operands that are not stored in the type of the arithmetic are widened into the
// workspace once per call; the result is accumulated in that type and rounded once.

#include "../plan/flops.h"
#include "blas.h"
#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

template <class R>
Matrix<const R> operand(const Tensor& t, Workspace& workspace, Slot slot, int threads) {
  if (t.dtype == k_dtype_of<R>) return {t.ptr<R>(), t.pitch};
  R* wide = workspace.get<R>(slot, t.count());
  const std::int64_t columns = t.columns();
  for_rows(threads, t.rows(), columns, [&](std::int64_t r) { read(t, r, 0, columns, wide + r * columns); });
  return {wide, columns};
}

template <class R>
Matrix<R> result(const Tensor& t, Workspace& workspace) {
  if (t.dtype == k_dtype_of<R>) return {t.ptr<R>(), t.pitch};
  return {workspace.get<R>(Slot::gemm_c, t.count()), t.columns()};
}

// Rounds a result that was computed in the workspace.
template <class R>
void finish(const Tensor& t, Matrix<R> c, Into into, int threads) {
  if (t.dtype == k_dtype_of<R>) return;
  for_rows(threads, t.rows(), t.columns(), [&](std::int64_t r) {
    for_pieces(t.columns(), k_block, [&](std::int64_t first, std::int64_t n) {
      store_into(t, r, first, n, c.data + r * c.ld + first, into);
    });
  });
}

// Every row of c becomes the bias, to which the product is then added: the pass that would otherwise clear c.
template <class R>
void start_from_bias(Matrix<R> c, std::int64_t rows, std::int64_t columns, const Tensor& bias, int threads) {
  for_rows(threads, rows, columns, [&](std::int64_t r) {
    for_pieces(columns, k_block, [&](std::int64_t first, std::int64_t n) {
      R* to = c.data + r * c.ld + first;
      const R* from = read(bias, first, 0, n, to);
      if (from != to) std::copy(from, from + n, to);
    });
  });
}

}  // namespace

void CpuBackend::matmul(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F) {
  const std::int64_t T = x_TC.rows(), F = w_FC.rows(), C = x_TC.columns();
  require(y_TF.rows() == T && y_TF.columns() == F && w_FC.columns() == C, "matmul: y [T, F], x [T, C], w [F, C]");
  if (T == 0 || F == 0) return;
  counters_.matmul_flops += matmul_flops(T, F, C);
  with_real(x_TC.dtype, [&]<class R>(R) {
    const auto x = operand<R>(x_TC, workspace_, Slot::gemm_a, n_threads_);
    const auto w = operand<R>(w_FC, workspace_, Slot::gemm_b, n_threads_);
    const auto y = result<R>(y_TF, workspace_);
    if (bias_F) start_from_bias(y, T, F, bias_F, n_threads_);
    gemm(Op::plain, Op::transposed, T, F, C, x, w, bias_F ? R(1) : R(0), y);
    finish(y_TF, y, Into::replace, n_threads_);
  });
}

void CpuBackend::matmul_dx(Tensor dx_TC, Tensor dy_TF, Tensor w_FC) {
  const std::int64_t T = dy_TF.rows(), F = w_FC.rows(), C = w_FC.columns();
  require(dx_TC.rows() == T && dx_TC.columns() == C && dy_TF.columns() == F,
          "matmul_dx: dx [T, C], dy [T, F], w [F, C]");
  if (T == 0 || C == 0) return;
  counters_.matmul_flops += matmul_flops(T, F, C);
  with_real(dy_TF.dtype, [&]<class R>(R) {
    const auto dy = operand<R>(dy_TF, workspace_, Slot::gemm_a, n_threads_);
    const auto w = operand<R>(w_FC, workspace_, Slot::gemm_b, n_threads_);
    const auto dx = result<R>(dx_TC, workspace_);
    gemm(Op::plain, Op::plain, T, C, F, dy, w, R(0), dx);
    finish(dx_TC, dx, Into::replace, n_threads_);
  });
}

void CpuBackend::matmul_dw(Tensor dw_FC, Tensor dy_TF, Tensor x_TC, Into into) {
  const std::int64_t T = dy_TF.rows(), F = dy_TF.columns(), C = x_TC.columns();
  require(dw_FC.rows() == F && dw_FC.columns() == C && x_TC.rows() == T, "matmul_dw: dw [F, C], dy [T, F], x [T, C]");
  if (T == 0) return into == Into::replace ? fill(dw_FC, 0) : void();
  counters_.matmul_flops += matmul_flops(T, F, C);
  with_real(dy_TF.dtype, [&]<class R>(R) {
    const auto dy = operand<R>(dy_TF, workspace_, Slot::gemm_a, n_threads_);
    const auto x = operand<R>(x_TC, workspace_, Slot::gemm_b, n_threads_);
    const auto dw = result<R>(dw_FC, workspace_);
    const bool in_place = dw_FC.dtype == k_dtype_of<R>;
    gemm(Op::transposed, Op::plain, F, C, T, dy, x, in_place && into == Into::add ? R(1) : R(0), dw);
    finish(dw_FC, dw, into, n_threads_);
  });
}

void CpuBackend::sum_rows(Tensor db_F, Tensor dy_TF, Into into) {
  const std::int64_t T = dy_TF.rows(), F = dy_TF.columns();
  constexpr std::int64_t k_strip = 128;
  with_real(dy_TF.dtype, [&]<class R>(R) {
    for_blocks(n_threads_, F, k_strip, [&](std::int64_t first, std::int64_t last) {
      double sums[k_strip] = {};
      R buffer[k_strip];
      const std::int64_t n = last - first;
      for (std::int64_t t = 0; t < T; ++t) {
        const R* dy = read(dy_TF, t, first, n, buffer);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(dy[i]);
      }
      std::copy(sums, sums + n, buffer);
      store_into(db_F, first, 0, n, buffer, into);
    });
  });
}

}  // namespace trireme::cpu
