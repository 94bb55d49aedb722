// Legend: T all local tokens, Ts this rank's tokens outside the products (T/tp under sequence parallelism), C channels,
// F local features, dx the gradient of x. Every equation is for one token.
#include "trireme/model/block.h"

#include <cmath>

#include "trireme/base/check.h"
#include "trireme/model/tensor_parallel.h"

namespace trireme {

void norm_forward(Context& c, const NormParams& n, Tensor y, Tensor mean, Tensor rstd, Tensor x) {
  const Tensor bias = n.bias < 0 ? Tensor{} : c.params.at(n.bias).value;
  c.be.norm(y, mean, rstd, x, c.params.at(n.gain).value, bias, n.kind, n.eps);
}

void norm_backward(Context& c, const NormParams& n, Tensor dx, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                   Into into) {
  const Tensor dbias = n.bias < 0 ? Tensor{} : c.params.at(n.bias).grad;
  const Param& gain = c.params.at(n.gain);
  c.be.norm_backward(dx, gain.grad, dbias, dy, x, mean, rstd, gain.value, n.kind, into);
}

HeadCounts Block::local_heads(const Context& c) const {
  const GridPoint& here = c.grid.here();
  const std::int64_t kv = cut(heads_.kv, here.n(Axis::tp), here.at(Axis::tp)).count();
  return {kv * div_exact(heads_.query, heads_.kv), kv, heads_.size};
}

Attention Block::attention_of(const Context& c, const MicroBatch& mb) const {
  const Tensor cache = c.cache == nullptr ? Tensor{} : c.cache->layers[static_cast<std::size_t>(layer_)];
  return {local_heads(c), window_, 1.0 / std::sqrt(static_cast<double>(heads_.size)), mb.doc_start_T, c.cache, cache};
}

RandomKey Block::dropout_key(const Context& c, const char* branch) const {
  return {c.seed, stream_of("dropout.block." + std::to_string(layer_) + "." + branch), c.step};
}

void Block::forward(Context& c, const MicroBatch& mb, Tensor y, Tensor x, Arena& keep, Saved& s, Recompute mode) const {
  const ArenaScope scope(c.scratch);
  s.x = x;
  // Under full recomputation nothing else outlives this call: it is all scratch.
  Arena& arena = mode == Recompute::block ? c.scratch : keep;
  forward_attention(c, mb, x, arena, s, mode);
  forward_mlp(c, mb, y, arena, s, mode);
}

// y = residual + drop(x W^T + b), the product summed over tp. The plain case is one product.
void Block::leave_branch(Context& c, const MicroBatch& mb, const Branch& b) const {
  const Tensor bias = bias_of(c, b.linear);
  Leaving sum(c, b.y, mb.position_T.rows());
  if (sum.whole() && c.dropout == 0) {
    linear(c, b.linear, b.y, b.x, bias, b.residual);
    return;
  }
  linear(c, b.linear, sum.partial(), b.x, Tensor{}, Tensor{});
  sum.start();
  sum.wait();
  c.be.dropout_add(b.y, b.y, bias, b.residual, own_tokens(c, mb.row_T), c.dropout, dropout_key(c, b.name));
}

// h1 = norm1(x); [q k v] = h1 W^T + b; rotate; o = attention; r = x + drop(o Wo^T + bo)
void Block::forward_attention(Context& c, const MicroBatch& mb, Tensor x, Arena& keep, Saved& s, Recompute mode) const {
  const std::int64_t Ts = x.rows(), C = x.columns();
  Arena& light = mode >= Recompute::light ? c.scratch : keep;
  Arena& heavy = mode >= Recompute::attention ? c.scratch : keep;
  if (norm1_.kind == NormKind::layer) s.mean1 = keep.take(c.acc(), {Ts});
  s.rstd1 = keep.take(c.acc(), {Ts});
  s.r = keep.take(c.compute, {Ts, C});
  s.h1 = normed(c, norm1_, qkv_, s.mean1, s.rstd1, x, light);
  project_qkv(c, mb, keep, s);
  const Tensor out = attention_of(c, mb).forward(c, s.qkv, mb.n_sequences, heavy, s.attention);
  s.attended = operand_of(c, out_, Role::activation, out, heavy);
  leave_branch(c, mb, {s.r, s.attended, x, out_, "attn"});
}

void Block::project_qkv(Context& c, const MicroBatch& mb, Arena& keep, Saved& s) const {
  const HeadCounts h = local_heads(c);
  const std::int64_t T = mb.position_T.rows();
  s.qkv = keep.take(c.compute, {T, h.all_columns()});
  {
    const ArenaScope scope(c.scratch);
    linear(c, qkv_, s.qkv, Entered(c, s.h1.fp8()).wait(), bias_of(c, qkv_), Tensor{});
  }
  Tensor q = s.qkv.slice_columns(0, h.query_columns()), k = s.qkv.slice_columns(h.query_columns(), h.kv_columns());
  if (qk_norm_) {
    s.qk_raw = keep.take(c.compute, {T, h.query_columns() + h.kv_columns()});
    s.q_rstd = keep.take(c.acc(), {T, h.query});
    s.k_rstd = keep.take(c.acc(), {T, h.kv});
    c.be.copy(s.qk_raw, s.qkv.slice_columns(0, h.query_columns() + h.kv_columns()));
    c.be.head_norm(q, s.q_rstd, s.qk_raw.slice_columns(0, h.query_columns()), c.params.at(q_gain_).value, eps_);
    c.be.head_norm(k, s.k_rstd, s.qk_raw.slice_columns(h.query_columns(), h.kv_columns()), c.params.at(k_gain_).value,
                   eps_);
  }
  // q and k are neighbours: one call turns both.
  if (rope_)
    c.be.rope(s.qkv.slice_columns(0, h.query_columns() + h.kv_columns()), mb.position_T, c.rope_table, h.size, false);
}

// h2 = norm2(r or x); u = h2 Wu^T + bu; g = act(u); y = r + drop(g Wd^T + bd)
void Block::forward_mlp(Context& c, const MicroBatch& mb, Tensor y, Arena& keep, Saved& s, Recompute mode) const {
  const std::int64_t T = mb.position_T.rows(), Ts = s.r.rows(), F = c.params.at(down_.weight).value.columns();
  Arena& light = mode >= Recompute::light ? c.scratch : keep;
  if (norm2_.kind == NormKind::layer) s.mean2 = keep.take(c.acc(), {Ts});
  s.rstd2 = keep.take(c.acc(), {Ts});
  s.before = keep.take(c.compute, {T, gated_ ? 2 * F : F});
  s.h2 = normed(c, norm2_, up_, s.mean2, s.rstd2, mlp_input(s), light);
  forward_up(c, s, light);
  leave_branch(c, mb, {y, s.activated, s.r, down_, "mlp"});
}

// In FP8 the product keeps what the activation was applied to, and the activation is quantised as it is computed.
void Block::forward_up(Context& c, Saved& s, Arena& light) const {
  const bool fp8 = in_fp8(c, up_);
  if (!fp8) s.activated.tensor = light.take(c.compute, {s.before.rows(), s.before.columns() / (gated_ ? 2 : 1)});
  {
    const ArenaScope scope(c.scratch);
    const Operand all = Entered(c, s.h2.fp8()).wait();
    if (!fp8) {
      c.be.matmul_activation(s.activated.tensor, s.before, all.tensor, c.params.joined_value(up_.weight, up_.n),
                             bias_of(c, up_), activation_);
      return;
    }
    linear(c, up_, s.before, all, bias_of(c, up_), Tensor{});
  }
  s.activated = activated(c, s.before, light);
}

Operand Block::normed(Context& c, const NormParams& n, const Linear& next, Tensor mean, Tensor rstd, Tensor x,
                      Arena& arena) const {
  if (!in_fp8(c, next)) {
    const Tensor y = arena.take(c.compute, x.shape);
    norm_forward(c, n, y, mean, rstd, x);
    return {y, {}, {}};
  }
  const Operand h = take_operand(c, Role::activation, x.shape, arena);
  const ArenaScope scope(c.scratch);
  const Tensor y = h.tensor ? h.tensor : c.scratch.take(c.compute, x.shape);
  if (is_rows_only(c, h)) {
    c.be.norm_quantize(h.rows, h.scale, y, mean, rstd, x, c.params.at(n.gain).value,
                       n.bias < 0 ? Tensor{} : c.params.at(n.bias).value, n.kind, n.eps);
    return h;
  }
  norm_forward(c, n, y, mean, rstd, x);
  quantize(c, h, y);
  return h;
}

Operand Block::activated(Context& c, Tensor before, Arena& arena) const {
  const Shape shape{before.rows(), before.columns() / (gated_ ? 2 : 1)};
  if (!in_fp8(c, down_)) {
    const Tensor y = arena.take(c.compute, shape);
    c.be.activation(y, before, activation_);
    return {y, {}, {}};
  }
  const Operand g = take_operand(c, Role::activation, shape, arena);
  const ArenaScope scope(c.scratch);
  const Tensor y = g.tensor ? g.tensor : c.scratch.take(c.compute, shape);
  if (is_rows_only(c, g)) {
    c.be.activation_quantize(g.rows, g.scale, y, before, activation_);
    return g;
  }
  c.be.activation(y, before, activation_);
  quantize(c, g, y);
  return g;
}

// du = act'(before) dg in scratch, db (+)= its column sums.
Operand Block::activation_gradient(Context& c, Tensor db, Tensor dg, Tensor before) const {
  if (!in_fp8(c, up_)) {
    const Tensor du = c.scratch.take(c.compute, before.shape);
    c.be.activation_backward_bias(du, db, dg, before, activation_, c.into);
    return {du, {}, {}};
  }
  const Operand made = take_operand(c, Role::gradient, before.shape, c.scratch);
  const Tensor du = made.tensor ? made.tensor : c.scratch.take(c.compute, before.shape);
  if (is_rows_only(c, made)) {
    c.be.activation_backward_quantize(made.rows, made.scale, du, db, dg, before, activation_, c.into);
    return made;
  }
  c.be.activation_backward_bias(du, db, dg, before, activation_, c.into);
  quantize(c, made, du);
  return made;
}

void Block::backward(Context& c, const MicroBatch& mb, Tensor dy, Saved& s, Recompute mode) const {
  const ArenaScope scope(c.scratch);
  if (mode == Recompute::block) {
    const Tensor y = c.scratch.take(c.compute, s.x.shape);
    Saved again;
    again.x = s.x;
    forward_attention(c, mb, s.x, c.scratch, again, Recompute::none);
    forward_mlp(c, mb, y, c.scratch, again, Recompute::none);
    backward_branches(c, mb, dy, again, Recompute::none);
    return;
  }
  backward_branches(c, mb, dy, s, mode);
}

// dx = dy, then each branch adds its share. One after the other, attention sees dx with the share of the mlp in it;
// side by side both see dy.
void Block::backward_branches(Context& c, const MicroBatch& mb, Tensor dy, Saved& s, Recompute mode) const {
  Tensor dx = dy;
  if (parallel_) {
    dx = c.scratch.take(dy.dtype, dy.shape);
    c.be.copy(dx, dy);
  }
  backward_mlp(c, mb, dx, dy, s, mode);
  backward_attention(c, mb, dx, dy, s, mode);
  if (parallel_) c.be.copy(dy, dx);
}

// y = r + drop(d + b):  dd = drop'(dy), db += sum dd.  dy itself goes on as the gradient of r.
Tensor Block::branch_gradient(Context& c, const MicroBatch& mb, Tensor dy, const char* branch, ParamId bias) const {
  Tensor dd = dy;
  if (c.dropout > 0) {
    dd = c.scratch.take(c.compute, dy.shape);
    c.be.dropout_backward(dd, dy, own_tokens(c, mb.row_T), c.dropout, dropout_key(c, branch));
  }
  if (bias >= 0) c.be.sum_rows(c.params.at(bias).grad, dd, c.into);
  return dd;
}

// dg = dd Wd; dWd += dd^T g; du = act'(u) dg; dbu += sum du; dh2 = du Wu; dWu += du^T h2; dr += norm2'(dh2)
void Block::backward_mlp(Context& c, const MicroBatch& mb, Tensor dx, Tensor dy, Saved& s, Recompute mode) const {
  const ArenaScope scope(c.scratch);
  const std::int64_t T = mb.position_T.rows(), F = s.before.columns() / (gated_ ? 2 : 1);
  if (mode >= Recompute::light) {
    s.h2 = normed(c, norm2_, up_, s.mean2, s.rstd2, mlp_input(s), c.scratch);
    s.activated = activated(c, s.before, c.scratch);
  }
  const Operand dd = operand_of(c, down_, Role::gradient, branch_gradient(c, mb, dy, "mlp", down_.bias), c.scratch);
  Entered dd_entered(c, dd);
  Entered h2_entered(c, s.h2);
  const Operand dd_all = dd_entered.wait();
  const Tensor dg = c.scratch.take(c.compute, {T, F});
  linear_dx(c, down_, dg, dd_all);
  linear_dw(c, down_, dd_all, s.activated, c.into);
  const Tensor dbias = up_.bias < 0 ? Tensor{} : c.params.joined_grad(up_.bias, up_.n);
  const Operand du = activation_gradient(c, dbias, dg, s.before);
  const Tensor dh2 = c.scratch.take(c.compute, dy.shape);
  Leaving sum(c, dh2, T);
  linear_dx(c, up_, sum.partial(), du);
  sum.start();
  linear_dw(c, up_, du, h2_entered.wait(), c.into);
  sum.wait();
  norm_backward(c, norm2_, dx, dh2, mlp_input(s), s.mean2, s.rstd2, c.into);
}

// da = drop'(dr); do = da Wo; dWo += da^T o; dqkv = attention'(do); dh1 = dqkv W; dW += dqkv^T h1; dx += norm1'(dh1)
void Block::backward_attention(Context& c, const MicroBatch& mb, Tensor dx, Tensor dy, Saved& s, Recompute mode) const {
  const ArenaScope scope(c.scratch);
  const std::int64_t T = mb.position_T.rows();
  const HeadCounts h = local_heads(c);
  const Attention attention = attention_of(c, mb);
  if (mode >= Recompute::light) {
    s.h1 = normed(c, norm1_, qkv_, s.mean1, s.rstd1, s.x, c.scratch);
  }
  if (mode >= Recompute::attention) {
    const Tensor out = attention.forward(c, s.qkv, mb.n_sequences, c.scratch, s.attention);
    s.attended = operand_of(c, out_, Role::activation, out, c.scratch);
  }
  const Operand da = operand_of(c, out_, Role::gradient, branch_gradient(c, mb, dy, "attn", out_.bias), c.scratch);
  Entered da_entered(c, da);
  Entered h1_entered(c, s.h1);
  const Operand da_all = da_entered.wait();
  const Tensor dout = c.scratch.take(c.compute, {T, h.query_columns()}), dqkv = c.scratch.take(c.compute, s.qkv.shape);
  linear_dx(c, out_, dout, da_all);
  linear_dw(c, out_, da_all, s.attended, c.into);
  attention.backward(c, dqkv, dout, s.qkv, mb.n_sequences, s.attention);
  backward_qkv(c, mb, dqkv, s);
  const Operand dqkv_operand = operand_of(c, qkv_, Role::gradient, dqkv, c.scratch);
  const Tensor dh1 = c.scratch.take(c.compute, dy.shape);
  Leaving sum(c, dh1, T);
  linear_dx(c, qkv_, sum.partial(), dqkv_operand);
  sum.start();
  linear_dw(c, qkv_, dqkv_operand, h1_entered.wait(), c.into);
  sum.wait();
  norm_backward(c, norm1_, dx, dh1, s.x, s.mean1, s.rstd1, c.into);
}

// Turns dq and dk back, through the QK-norm where there is one, and sums the biases' gradients.
void Block::backward_qkv(Context& c, const MicroBatch& mb, Tensor dqkv, Saved& s) const {
  const HeadCounts h = local_heads(c);
  const std::int64_t qk_columns = h.query_columns() + h.kv_columns();
  if (rope_) c.be.rope(dqkv.slice_columns(0, qk_columns), mb.position_T, c.rope_table, h.size, true);
  if (qk_norm_) {
    const ArenaScope scope(c.scratch);
    const Tensor dy = c.scratch.take(c.compute, s.qk_raw.shape);
    c.be.copy(dy, dqkv.slice_columns(0, qk_columns));
    c.be.head_norm_backward(dqkv.slice_columns(0, h.query_columns()), c.params.at(q_gain_).grad,
                            dy.slice_columns(0, h.query_columns()), s.qk_raw.slice_columns(0, h.query_columns()),
                            s.q_rstd, c.params.at(q_gain_).value, c.into);
    c.be.head_norm_backward(dqkv.slice_columns(h.query_columns(), h.kv_columns()), c.params.at(k_gain_).grad,
                            dy.slice_columns(h.query_columns(), h.kv_columns()),
                            s.qk_raw.slice_columns(h.query_columns(), h.kv_columns()), s.k_rstd,
                            c.params.at(k_gain_).value, c.into);
  }
  if (qkv_.bias >= 0) c.be.sum_rows(c.params.joined_grad(qkv_.bias, qkv_.n), dqkv, c.into);
}

}  // namespace trireme
