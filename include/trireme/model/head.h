#pragma once
// Final norm, LM head and cross entropy over a vocabulary cut over tp. Last layer of the last stage. Logits exist only
// for a chunk of tokens at a time: forward and backward of a chunk are done together, in the backward slot of the
// schedule.

#include "trireme/deck/deck.h"
#include "trireme/model/block.h"
#include "trireme/model/context.h"

namespace trireme {

class Head {
 public:
  // tied: the token embedding, or -1 for a weight of its own.
  Head(ParamTable& table, const ModelDeck& model, ParamId tied);

  // loss_1 (f64) += sum of the losses of all unmasked targets of this rank's tokens. x_TC: this rank's tokens.
  void loss(Context& c, const MicroBatch& mb, Tensor x, Tensor loss_1) const;
  // The same, and dx = gradient of gradient_scale * loss, and the parameters' gradients.
  void loss_backward(Context& c, const MicroBatch& mb, Tensor dx, Tensor x, Tensor loss_1, double gradient_scale) const;
  // All logits of this rank's vocabulary slice, [T, V]: for tests and tools; training never holds them.
  void logits(Context& c, const MicroBatch& mb, Tensor out, Tensor x) const;
  std::int64_t chunk_tokens(const Context& c, std::int64_t n_tokens) const;
  ParamId weight() const { return weight_; }
  Linear product() const { return {weight_, -1, 1}; }

 private:
  struct Normed {
    Tensor y, mean, rstd;
  };
  Normed norm(Context& c, Tensor x) const;
  CrossEntropy cross_entropy(const Context& c) const;
  Operand project(Context& c, Tensor logits, Tensor y) const;
  void chunk_loss(Context& c, Tensor logits, Tensor target, const CrossEntropy& ce, bool backward, Tensor loss_1) const;

  std::int64_t vocab_;
  double z_loss_;
  NormParams norm_;
  ParamId weight_;
};

}  // namespace trireme
