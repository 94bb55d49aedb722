#include "trireme/model/linear.h"

namespace trireme {

namespace {

Operand quantized(Context& c, Tensor x, DType format, Arena& arena) {
  const Operand rows = take_rows(x.shape, format, arena);
  c.be.quantize_rows(rows.rows, rows.scale, x);
  return rows;
}

// Both sides turned, since an FP8 product runs along the rows of both: dw = dy^T x.
void linear_dw_in_fp8(Context& c, Tensor dw, const Operand& dy, const Operand& x) {
  const ArenaScope scope(c.scratch);
  const std::int64_t T = x.rows.rows();
  const Tensor dy_FT = c.scratch.take(dy.rows.dtype, {dy.rows.columns(), T}),
               dy_scale = c.scratch.take(DType::f32, {1});
  const Tensor x_CT = c.scratch.take(x.rows.dtype, {x.rows.columns(), T}), x_scale = c.scratch.take(DType::f32, {1});
  c.be.transpose_quantized(dy_FT, dy_scale, dy.rows, dy.scale);
  c.be.transpose_quantized(x_CT, x_scale, x.rows, x.scale);
  c.be.matmul_scaled(dw, dy_FT, dy_scale, x_CT, x_scale, Tensor{}, c.into == Into::add ? dw : Tensor{},
                     c.fp8->options().backward_sum);
}

}  // namespace

bool in_fp8(const Context& c, const Linear& l) {
  return c.fp8 != nullptr && c.fp8->holds(l.weight);
}

Tensor bias_of(const Context& c, const Linear& l) {
  return l.bias < 0 ? Tensor{} : c.params.joined_value(l.bias, l.n);
}

Operand take_rows(Shape shape, DType format, Arena& arena) {
  const Tensor rows = arena.take(format, shape);
  return {{}, rows, arena.take(DType::f32, {shape[0]})};
}

Operand activation_operand(Context& c, const Linear& l, Tensor x, Arena& arena) {
  return in_fp8(c, l) ? quantized(c, x, c.fp8->options().forward, arena) : Operand{x, {}, {}};
}

Operand gradient_operand(Context& c, const Linear& l, Tensor dy, Arena& arena) {
  return in_fp8(c, l) ? quantized(c, dy, c.fp8->options().gradient, arena) : Operand{dy, {}, {}};
}

void linear(Context& c, const Linear& l, Tensor y, const Operand& x, Tensor bias, Tensor addend) {
  if (in_fp8(c, l)) {
    const Fp8Weights::Copy& w = c.fp8->of(l.weight, c.params, c.be);
    c.be.matmul_scaled(y, x.rows, x.scale, w.rows_FC, w.rows_scale_F, bias, addend, c.fp8->options().forward_sum);
    return;
  }
  const Tensor weight = c.params.joined_value(l.weight, l.n);
  if (addend) c.be.matmul_residual(y, x.tensor, weight, bias, addend);
  if (!addend) c.be.matmul(y, x.tensor, weight, bias);
}

void linear_dx(Context& c, const Linear& l, Tensor dx, const Operand& dy) {
  if (in_fp8(c, l)) {
    const Fp8Weights::Copy& w = c.fp8->of(l.weight, c.params, c.be);
    c.be.matmul_scaled(dx, dy.rows, dy.scale, w.columns_CF, w.columns_scale_C, Tensor{}, Tensor{},
                       c.fp8->options().backward_sum);
    return;
  }
  c.be.matmul_dx(dx, dy.tensor, c.params.joined_value(l.weight, l.n));
}

void linear_dw(Context& c, const Linear& l, const Operand& dy, const Operand& x) {
  const Tensor dw = c.params.joined_grad(l.weight, l.n);
  if (in_fp8(c, l)) {
    linear_dw_in_fp8(c, dw, dy, x);
    return;
  }
  c.be.matmul_dw(dw, dy.tensor, x.tensor, c.into);
}

}  // namespace trireme
