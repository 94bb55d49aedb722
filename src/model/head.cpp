// Legend: T all local tokens, Ts this rank's, V local vocabulary rows, t tokens of a chunk.
#include "trireme/model/head.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/model/embedding.h"
#include "trireme/model/tensor_parallel.h"

namespace trireme {

namespace {

// Large enough to keep matrix products efficient, small beside the activations.
constexpr std::int64_t k_logits_bytes = std::int64_t{2} << 30;
constexpr std::int64_t k_chunk_multiple = 256;

}  // namespace

Head::Head(ParamTable& table, const ModelDeck& model, ParamId tied)
    : vocab_(model.vocab),
      z_loss_(model.z_loss),
      norm_(add_norm_params(table, model, "head.norm", "head.norm", k_last_layer)) {
  weight_ = tied;
  if (tied >= 0) return;
  ParamSpec spec;
  spec.name = "head.weight";
  spec.shape = {padded_vocab(model), model.hidden};
  spec.cut = Cut::rows;
  spec.layer = k_last_layer;
  spec.init_std = model.init_std;
  spec.valid_rows = model.vocab;
  weight_ = table.add(spec);
}

std::int64_t Head::chunk_tokens(const Context& c, std::int64_t n_tokens) const {
  const std::int64_t row = c.params.at(weight_).value.rows() * static_cast<std::int64_t>(size_of(c.compute));
  const std::int64_t fit = std::max<std::int64_t>(1, k_logits_bytes / std::max<std::int64_t>(1, row));
  return std::min(n_tokens, std::max(k_chunk_multiple, fit / k_chunk_multiple * k_chunk_multiple));
}

Head::Normed Head::norm(Context& c, Tensor x) const {
  Normed n;
  n.y = c.scratch.take(c.compute, x.shape);
  if (norm_.kind == NormKind::layer) n.mean = c.scratch.take(c.acc(), {x.rows()});
  n.rstd = c.scratch.take(c.acc(), {x.rows()});
  norm_forward(c, norm_, n.y, n.mean, n.rstd, x);
  return n;
}

CrossEntropy Head::cross_entropy(const Context& c) const {
  const Param& weight = c.params.at(weight_);
  CrossEntropy ce;
  ce.first_row = weight.box.offset[0];
  ce.n_valid = std::clamp<std::int64_t>(vocab_ - ce.first_row, 0, weight.value.rows());
  ce.z_loss = z_loss_;
  return ce;
}

// The softmax over all of the vocabulary from three numbers per token and rank: maximum, sum of exponentials, target
// logit.
void Head::chunk_loss(Context& c, Tensor logits, Tensor target, const CrossEntropy& ce, bool backward,
                      Tensor loss_1) const {
  const ArenaScope scope(c.scratch);
  Communicator& tp = c.grid.along(Axis::tp);
  const std::int64_t t = logits.rows();
  const Tensor max = c.scratch.take(c.acc(), {t}), sums = c.scratch.take(c.acc(), {2, t}),
               loss = c.scratch.take(c.acc(), {t});
  const Tensor sum = sums.slice_rows(0, 1).as({t}), picked = sums.slice_rows(1, 1).as({t});
  if (tp.size() == 1) {
    c.be.cross_entropy_whole(loss, logits, target, max, sum, picked, ce, backward);
  } else {
    const Tensor all_max = c.scratch.take(c.acc(), {t});
    c.be.softmax_stats(max, sum, picked, logits, target, ce);
    c.be.copy(all_max, max);
    tp.all_reduce(all_max, Reduce::max);
    c.be.softmax_rescale(sum, max, all_max);
    tp.all_reduce(sums, Reduce::sum);
    c.be.cross_entropy(loss, logits, target, all_max, sum, picked, ce, backward);
  }
  c.be.sum(loss_1, loss);
}

// logits = y W^T; returns y as that product read it.
Operand Head::project(Context& c, Tensor logits, Tensor y) const {
  const Operand x = operand_of(c, product(), Role::activation, y, c.scratch);
  linear(c, product(), logits, x, Tensor{}, Tensor{});
  return x;
}

void Head::loss(Context& c, const MicroBatch& mb, Tensor x, Tensor loss_1) const {
  const ArenaScope scope(c.scratch);
  const Tensor y = Entered(c, {norm(c, x).y, {}, {}}).wait().tensor;
  const Tensor weight = c.params.at(weight_).value;
  const std::int64_t T = y.rows(), step = chunk_tokens(c, T);
  const Tensor logits = c.scratch.take(c.compute, {step, weight.rows()});
  for (std::int64_t first = 0; first < T; first += step) {
    const std::int64_t t = std::min(step, T - first);
    const ArenaScope of_chunk(c.scratch);
    const Tensor chunk = logits.slice_rows(0, t);
    project(c, chunk, y.slice_rows(first, t));
    chunk_loss(c, chunk, mb.target_T.slice_rows(first, t), cross_entropy(c), false, loss_1);
  }
}

// logits = y W^T; dlogits = scale (softmax - onehot); dy = dlogits W; dW += dlogits^T y; dx = norm'(dy)
void Head::loss_backward(Context& c, const MicroBatch& mb, Tensor dx, Tensor x, Tensor loss_1,
                         double gradient_scale) const {
  const ArenaScope scope(c.scratch);
  const Normed n = norm(c, x);
  const Tensor y = Entered(c, {n.y, {}, {}}).wait().tensor;
  const Param& weight = c.params.at(weight_);
  const std::int64_t T = y.rows(), step = chunk_tokens(c, T);
  const Tensor logits = c.scratch.take(c.compute, {step, weight.value.rows()}), dy = c.scratch.take(c.compute, x.shape);
  Leaving sum(c, dy, T);
  CrossEntropy ce = cross_entropy(c);
  ce.scale = gradient_scale;
  for (std::int64_t first = 0; first < T; first += step) {
    const std::int64_t t = std::min(step, T - first);
    const Tensor chunk = logits.slice_rows(0, t), y_chunk = y.slice_rows(first, t);
    const ArenaScope of_chunk(c.scratch);
    const Operand y_operand = project(c, chunk, y_chunk);
    chunk_loss(c, chunk, mb.target_T.slice_rows(first, t), ce, true, loss_1);
    const Operand dlogits = operand_of(c, product(), Role::gradient, chunk, c.scratch);
    linear_dx(c, product(), sum.partial().slice_rows(first, t), dlogits);
    linear_dw(c, product(), dlogits, y_operand, Into::add);
  }
  sum.start();
  sum.wait();
  c.be.fill(dx, 0);
  norm_backward(c, norm_, dx, dy, x, n.mean, n.rstd, Into::add);
}

void Head::logits(Context& c, const MicroBatch& mb, Tensor out, Tensor x) const {
  const ArenaScope scope(c.scratch);
  require(out.rows() == mb.position_T.rows(), "one row of logits per token");
  c.be.matmul(out, Entered(c, {norm(c, x).y, {}, {}}).wait().tensor, c.params.at(weight_).value, Tensor{});
}

}  // namespace trireme
