// The three products of a linear layer, and the one with a fused activation. Row-major matrices are column-major ones
// transposed: y = x w^T is computed as y^T = w x^T without moving anything.

#include "../plan/flops.h"
#include "check.h"
#include "gemm.h"

namespace trireme {

namespace {

constexpr double k_bytes_per_millisecond = 3.9e9;  // of an elementwise kernel; decides between two nearly equal ways

GemmProblem forward_problem(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  GemmProblem p;
  p.a_transposed = true;
  p.m = w.rows();
  p.n = x.rows();
  p.k = w.columns();
  p.a = w;
  p.b = x;
  p.d = y;
  p.bias = bias;
  return p;
}

void require_product(bool fits, const char* what, const Tensor& a, const Tensor& b, const Tensor& c) {
  require(fits, std::string(what) + ": shapes do not fit: " + to_string(a.shape) + ", " + to_string(b.shape) + ", " +
                    to_string(c.shape));
}

}  // namespace

void CudaBackend::matmul(Tensor y, Tensor x, Tensor w, Tensor bias) {
  require_product(y.rows() == x.rows() && y.columns() == w.rows() && x.columns() == w.columns(), "matmul()", y, x, w);
  if (y.count() == 0) return;
  counters_.matmul_flops += matmul_flops(x.rows(), w.rows(), w.columns());
  gemm_->run(forward_problem(y, x, w, bias));
}

void CudaBackend::matmul_dx(Tensor dx, Tensor dy, Tensor w) {
  require_product(dx.rows() == dy.rows() && dy.columns() == w.rows() && dx.columns() == w.columns(), "matmul_dx()", dx,
                  dy, w);
  if (dx.count() == 0) return;
  counters_.matmul_flops += matmul_flops(dx.rows(), w.rows(), w.columns());
  GemmProblem p;
  p.m = w.columns();
  p.n = dy.rows();
  p.k = w.rows();
  p.a = w;
  p.b = dy;
  p.d = dx;
  gemm_->run(p);
}

void CudaBackend::matmul_dw(Tensor dw, Tensor dy, Tensor x, Into into) {
  require_product(dw.rows() == dy.columns() && dw.columns() == x.columns() && dy.rows() == x.rows(), "matmul_dw()", dw,
                  dy, x);
  if (x.rows() == 0 || dw.count() == 0) return;
  counters_.matmul_flops += matmul_flops(x.rows(), dw.rows(), dw.columns());
  GemmProblem p;
  p.b_transposed = true;
  p.m = x.columns();
  p.n = dy.columns();
  p.k = x.rows();
  p.a = x;
  p.b = dy;
  p.d = dw;
  p.accumulate = into == Into::add;
  gemm_->run(p);
}

// Hopper multiplies fp8 matrices only when both run along k in memory: d^T = b a^T in column-major terms.
void CudaBackend::matmul_scaled(Tensor d, Tensor a, Tensor a_scale, Tensor b, Tensor b_scale, Tensor bias,
                                Tensor addend, Accumulation accumulation) {
  require_product(d.rows() == a.rows() && d.columns() == b.rows() && a.columns() == b.columns(), "matmul_scaled()", d,
                  a, b);
  if (d.count() == 0) return;
  counters_.matmul_flops += matmul_flops(d.rows(), d.columns(), a.columns());
  GemmProblem p = forward_problem(d, a, b, bias);
  p.accumulate = addend && addend.data == d.data;
  if (addend && !p.accumulate) p.c = addend;
  p.a_scale = b_scale;
  p.b_scale = a_scale;
  const bool blocks = a_scale.shape.rank == 2;
  p.accumulation = blocks ? Accumulation::exact : accumulation;  // Hopper adds products of blocks exactly or not at all
  if (!blocks || p.accumulate || gemm_->can(p)) return gemm_->run(p);
  p.bias = p.c = Tensor{};
  gemm_->run(p);
  if (bias || addend) dropout_add(d, d, bias, addend, Tensor{}, 0.0, RandomKey{});
}

// The product adds the residual as it stores its result, where that beats a second pass.
void CudaBackend::matmul_residual(Tensor y, Tensor x, Tensor w, Tensor bias, Tensor residual) {
  require(residual.rows() == y.rows() && residual.columns() == y.columns() && residual.dtype == y.dtype,
          "matmul_residual() needs a residual of y's shape and dtype");
  if (y.count() == 0) return;
  GemmProblem fused = forward_problem(y, x, w, bias);
  fused.c = residual;
  if (gemm_->can(fused)) {
    const double together = gemm_->milliseconds(fused);
    const double pass = 3.0 * static_cast<double>(y.bytes()) / k_bytes_per_millisecond;
    if (together == 0 || together < gemm_->milliseconds(forward_problem(y, x, w, {})) + pass) {
      counters_.matmul_flops += matmul_flops(x.rows(), w.rows(), w.columns());
      return gemm_->run(fused);
    }
  }
  Backend::matmul_residual(y, x, w, bias, residual);
}

// The library's GELU (the tanh form) writes both results at once. Whether that beats a second pass is measured per
// shape.
void CudaBackend::matmul_activation(Tensor y, Tensor before, Tensor x, Tensor w, Tensor bias, Activation kind) {
  const bool fusible = kind == Activation::gelu_tanh && y.dtype != DType::f32 && y.count() > 0 &&
                       !options_.deterministic && before.columns() % 8 == 0;
  if (fusible) {
    GemmProblem fused = forward_problem(y, x, w, bias);
    fused.before = before;
    const double together = gemm_->milliseconds(fused);
    const double pass = 2.0 * static_cast<double>(y.bytes()) / k_bytes_per_millisecond;
    const double apart = gemm_->milliseconds(forward_problem(before, x, w, bias)) + pass;
    if (together > 0 && together < apart) {
      counters_.matmul_flops += matmul_flops(x.rows(), w.rows(), w.columns());
      return gemm_->run(fused);
    }
  }
  matmul(before, x, w, bias);
  activation(y, before, kind);
}

}  // namespace trireme
