#include "trireme/model/linear.h"

namespace trireme {

namespace {

// The largest magnitude of a tensor of which ranks of cp and tp have parts, and from it the scale.
void quantize_shared(Context& c, const Operand& to, Tensor x) {
  const ArenaScope scope(c.scratch);
  const Tensor largest = c.scratch.take(DType::f32, {1});
  c.be.largest_magnitude(largest, x);
  c.grid.along(Axis::tp).all_reduce(largest, Reduce::max);
  c.grid.along(Axis::cp).all_reduce(largest, Reduce::max);
  c.be.scale_for(to.scale, largest, to.rows.dtype, c.fp8->options().scales);
  c.be.quantize(to.rows, x, to.scale);
}

// The transposed side of an FP8 product, in scratch.
Operand turned(Context& c, const Operand& x) {
  const std::int64_t T = x.rows.rows(), C = x.rows.columns();
  const Scaling scaling = scaling_of(x.rows, x.scale);
  const Tensor x_CT = c.scratch.take(x.rows.dtype, {C, T});
  const Shape scales = scale_shape(scaling == Scaling::row ? Scaling::tensor : scaling, C, T);
  const Tensor scale = c.scratch.take(DType::f32, scales);
  c.be.transpose_quantized(x_CT, scale, x.rows, x.scale);
  return {{}, x_CT, scale};
}

// Both sides turned, since an FP8 product runs along the rows of both: dw = dy^T x.
void linear_dw_in_fp8(Context& c, Tensor dw, const Operand& dy, const Operand& x, Into into) {
  const ArenaScope scope(c.scratch);
  const Operand dy_FT = turned(c, dy), x_CT = turned(c, x);
  c.be.matmul_scaled(dw, dy_FT.rows, dy_FT.scale, x_CT.rows, x_CT.scale, Tensor{}, into == Into::add ? dw : Tensor{},
                     c.fp8->options().backward_sum);
}

}  // namespace

bool in_fp8(const Context& c, const Linear& l) {
  return c.fp8 != nullptr && c.fp8->holds(l.weight);
}

Tensor bias_of(const Context& c, const Linear& l) {
  return l.bias < 0 ? Tensor{} : c.params.joined_value(l.bias, l.n);
}

Operand take_operand(Context& c, Role role, Shape shape, Arena& arena) {
  const Fp8Options& options = c.fp8->options();
  Operand made;
  if (options.weight_gradients == WeightGradients::bf16) made.tensor = arena.take(c.compute, shape);
  made.rows = arena.take(role == Role::activation ? options.forward : options.gradient, shape);
  made.scale = arena.take(DType::f32, scale_shape(c.fp8->scaling(), shape[0], shape.columns()));
  return made;
}

bool is_rows_only(const Context& c, const Operand& operand) {
  return c.fp8->options().recipe == Fp8Recipe::row && !operand.tensor;
}

void quantize(Context& c, const Operand& to, Tensor x) {
  const Fp8Options& options = c.fp8->options();
  if (options.recipe == Fp8Recipe::row) return c.be.quantize_rows(to.rows, to.scale, x);
  if (options.recipe == Fp8Recipe::block) return c.be.quantize_blocks(to.rows, to.scale, x, options.scales);
  quantize_shared(c, to, x);
}

Operand operand_of(Context& c, const Linear& l, Role role, Tensor x, Arena& arena) {
  if (!in_fp8(c, l)) return {x, {}, {}};
  const Fp8Options& options = c.fp8->options();
  Operand made;
  if (options.weight_gradients == WeightGradients::bf16) made.tensor = x;
  made.rows = arena.take(role == Role::activation ? options.forward : options.gradient, x.shape);
  made.scale = arena.take(DType::f32, scale_shape(c.fp8->scaling(), x.rows(), x.columns()));
  quantize(c, made, x);
  return made;
}

void linear(Context& c, const Linear& l, Tensor y, const Operand& x, Tensor bias, Tensor addend) {
  if (in_fp8(c, l)) {
    const Fp8Weights::Copy& w = c.fp8->of(l.weight, c);
    c.be.matmul_scaled(y, x.rows, x.scale, w.rows_FC, w.rows_scale, bias, addend, c.fp8->options().forward_sum);
    return;
  }
  const Tensor weight = c.params.joined_value(l.weight, l.n);
  if (addend) c.be.matmul_residual(y, x.tensor, weight, bias, addend);
  if (!addend) c.be.matmul(y, x.tensor, weight, bias);
}

void linear_dx(Context& c, const Linear& l, Tensor dx, const Operand& dy) {
  if (in_fp8(c, l)) {
    const Fp8Weights::Copy& w = c.fp8->of(l.weight, c);
    c.be.matmul_scaled(dx, dy.rows, dy.scale, w.columns_CF, w.columns_scale, Tensor{}, Tensor{},
                       c.fp8->options().backward_sum);
    return;
  }
  c.be.matmul_dx(dx, dy.tensor, c.params.joined_value(l.weight, l.n));
}

void linear_dw(Context& c, const Linear& l, const Operand& dy, const Operand& x, Into into) {
  const Tensor dw = c.params.joined_grad(l.weight, l.n);
  if (in_fp8(c, l) && c.fp8->options().weight_gradients == WeightGradients::fp8) {
    linear_dw_in_fp8(c, dw, dy, x, into);
    return;
  }
  c.be.matmul_dw(dw, dy.tensor, x.tensor, into);
}

}  // namespace trireme
