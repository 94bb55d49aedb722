#pragma once
// One transformer block, pre-norm: x + attention(norm1(x)), then + mlp(norm2(.)), or of x for both (parallel residual).
// Forward and backward are written by hand, in mirrored order. It owns no memory: parameters are ids, what backward
// needs lies in the caller's arena.

#include <string>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/model/attention.h"
#include "trireme/model/linear.h"

namespace trireme {

// What backward computes again instead of keeping. Each includes the ones before it.
enum class Recompute : std::uint8_t {
  none,
  light,      // norm outputs and the activation: memory-bound work only
  attention,  // also the attention output
  block,      // everything but the block's input
};
Recompute recompute_from(const std::string& name);

struct NormParams {
  ParamId gain = -1, bias = -1;
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
};
NormParams add_norm_params(ParamTable& table, const ModelDeck& model, const std::string& prefix,
                           const std::string& stack, int layer);
void norm_forward(Context& c, const NormParams& n, Tensor y, Tensor mean, Tensor rstd, Tensor x);
void norm_backward(Context& c, const NormParams& n, Tensor dx /*+=*/, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                   Into into);

class Block {
 public:
  Block(ParamTable& table, const ModelDeck& model, int layer);

  struct Saved {
    Tensor x, mean1, rstd1;               // block input, first norm
    Tensor qk_raw, q_rstd, k_rstd;        // QK-norm only: q and k before it
    Tensor qkv, r, mean2, rstd2, before;  // after rotation; middle residual; feed-forward
    Operand h1, attended, h2, activated;  // what the four products read
    Attention::Saved attention;
  };

  // x_TC -> y_TC (this rank's tokens), y is written where the caller says.
  void forward(Context& c, const MicroBatch& mb, Tensor y, Tensor x, Arena& keep, Saved& saved, Recompute mode) const;
  // dy_TC: in: gradient of y, out: gradient of x. Adds to the parameters' gradients.
  void backward(Context& c, const MicroBatch& mb, Tensor dy, Saved& saved, Recompute mode) const;

  int layer() const { return layer_; }
  std::vector<Linear> linears() const { return {qkv_, out_, up_, down_}; }

 private:
  HeadCounts local_heads(const Context& c) const;
  Attention attention_of(const Context& c, const MicroBatch& mb) const;
  Tensor mlp_input(const Saved& s) const { return parallel_ ? s.x : s.r; }
  RandomKey dropout_key(const Context& c, const char* branch) const;

  struct Branch {
    Tensor y;
    Operand x;
    Tensor residual;
    Linear linear;
    const char* name;
  };
  void leave_branch(Context& c, const MicroBatch& mb, const Branch& branch) const;
  void forward_attention(Context& c, const MicroBatch& mb, Tensor x, Arena& keep, Saved& s, Recompute mode) const;
  void forward_mlp(Context& c, const MicroBatch& mb, Tensor y, Arena& keep, Saved& s, Recompute mode) const;
  Operand normed(Context& c, const NormParams& n, const Linear& next, Tensor mean, Tensor rstd, Tensor x,
                 Arena& arena) const;
  Operand activated(Context& c, Tensor before, Arena& arena) const;
  Operand activation_gradient(Context& c, Tensor db, Tensor dg, Tensor before) const;
  void forward_up(Context& c, Saved& s, Arena& light) const;
  void project_qkv(Context& c, const MicroBatch& mb, Arena& keep, Saved& s) const;
  void backward_branches(Context& c, const MicroBatch& mb, Tensor dy, Saved& s, Recompute mode) const;
  // The gradient through the norm is added to dx; dy, what the branch gets, is dx itself where branches follow each
  // other.
  void backward_mlp(Context& c, const MicroBatch& mb, Tensor dx, Tensor dy, Saved& s, Recompute mode) const;
  void backward_attention(Context& c, const MicroBatch& mb, Tensor dx, Tensor dy, Saved& s, Recompute mode) const;
  void backward_qkv(Context& c, const MicroBatch& mb, Tensor dqkv, Saved& s) const;
  Tensor branch_gradient(Context& c, const MicroBatch& mb, Tensor dy, const char* branch, ParamId bias) const;

  int layer_;
  HeadCounts heads_;  // of the whole model
  std::int64_t window_;
  bool rope_, gated_, qk_norm_, parallel_;
  double eps_;
  Activation activation_;
  NormParams norm1_, norm2_;
  Linear qkv_, out_, up_, down_;  // q, k, v in one; gate and up in one
  ParamId q_gain_ = -1, k_gain_ = -1;
};

}  // namespace trireme
