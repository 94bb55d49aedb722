// The parameters of a block: names, shapes, cuts. Written once; everything else reads the table.
#include <cmath>

#include "trireme/base/check.h"
#include "trireme/model/block.h"

namespace trireme {

Recompute recompute_from(const std::string& name) {
  if (name == "none") return Recompute::none;
  if (name == "light") return Recompute::light;
  if (name == "attention") return Recompute::attention;
  require(name == "block", "unknown recomputation " + name);
  return Recompute::block;
}

namespace {

Activation activation_from(const std::string& name) {
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  if (name == "gelu_erf") return Activation::gelu_erf;
  if (name == "relu_squared") return Activation::relu_squared;
  require(name == "swiglu", "unknown activation " + name);
  return Activation::swiglu;
}

// Adds the parameters of one block; knows the prefixes so that each line below says only what differs.
struct Adder {
  ParamTable& table;
  const ModelDeck& model;
  int layer;

  ParamSpec named(const std::string& name, Shape shape) const {
    ParamSpec spec;
    spec.name = "block." + std::to_string(layer) + "." + name;
    spec.stack = "block." + name;
    spec.shape = shape;
    spec.layer = layer;
    return spec;
  }
  ParamId weight(const std::string& name, Shape shape, Cut cut, std::int64_t unit, double std, bool joined) const {
    ParamSpec spec = named(name + ".weight", shape);
    spec.cut = cut;
    spec.cut_unit = unit;
    spec.init_std = std;
    spec.joined = joined;
    return table.add(spec);
  }
  // A bias is cut with the rows of its weight; behind a sum over tp it is whole.
  ParamId bias(const std::string& name, std::int64_t rows, Cut cut, std::int64_t unit, bool joined) const {
    ParamSpec spec = named(name + ".bias", {rows});
    spec.cut = cut == Cut::rows ? Cut::rows : Cut::none;
    spec.cut_unit = cut == Cut::rows ? unit : 1;
    spec.partial = cut == Cut::rows ? Partial::never : Partial::tokens;
    spec.init = Init::zeros;
    spec.decay = false;
    spec.joined = joined;
    return table.add(spec);
  }
  ParamId head_gain(const std::string& name) const {
    ParamSpec spec = named(name + ".gain", {model.head_dim});
    spec.partial = Partial::heads;
    spec.init = Init::ones;
    spec.decay = false;
    return table.add(spec);
  }
};

}  // namespace

NormParams add_norm_params(ParamTable& table, const ModelDeck& model, const std::string& prefix,
                           const std::string& stack, int layer) {
  NormParams norm;
  norm.kind = model.norm == "layer" ? NormKind::layer : NormKind::rms;
  norm.eps = model.norm_eps;
  ParamSpec spec;
  spec.name = prefix + ".gain";
  spec.stack = stack + ".gain";
  spec.shape = {model.hidden};
  spec.layer = layer;
  spec.init = Init::ones;
  spec.decay = false;
  spec.partial = Partial::tokens;
  norm.gain = table.add(spec);
  if (norm.kind == NormKind::rms) return norm;
  spec.name = prefix + ".bias";
  spec.stack = stack + ".bias";
  spec.init = Init::zeros;
  norm.bias = table.add(spec);
  return norm;
}

Block::Block(ParamTable& table, const ModelDeck& model, int layer)
    : layer_(layer),
      heads_{model.heads, model.kv_heads, model.head_dim},
      window_(model.window),
      rope_(model.position == "rope"),
      gated_(model.activation == "swiglu"),
      qk_norm_(model.qk_norm),
      parallel_(model.parallel_residual),
      eps_(model.norm_eps),
      activation_(activation_from(model.activation)) {
  const Adder add{table, model, layer};
  const std::string prefix = "block." + std::to_string(layer);
  const std::int64_t C = model.hidden, D = model.head_dim, F = model.ffn,
                     group = div_exact(model.heads, model.kv_heads);
  const double std = model.init_std;
  const double out_std = model.scaled_init ? std / std::sqrt(2.0 * static_cast<double>(model.layers)) : std;
  const bool all_biases = model.bias == "all", qkv_biases = all_biases || model.bias == "qkv";

  norm1_ = add_norm_params(table, model, prefix + ".norm1", "block.norm1", layer);
  qkv_ = {add.weight("attn.q", {model.heads * D, C}, Cut::rows, group * D, std, false), -1, 3};
  add.weight("attn.k", {model.kv_heads * D, C}, Cut::rows, D, std, true);
  add.weight("attn.v", {model.kv_heads * D, C}, Cut::rows, D, std, true);
  if (qkv_biases) {
    qkv_.bias = add.bias("attn.q", model.heads * D, Cut::rows, group * D, false);
    add.bias("attn.k", model.kv_heads * D, Cut::rows, D, true);
    add.bias("attn.v", model.kv_heads * D, Cut::rows, D, true);
  }
  if (qk_norm_) {
    q_gain_ = add.head_gain("attn.q_norm");
    k_gain_ = add.head_gain("attn.k_norm");
  }
  out_.weight = add.weight("attn.out", {C, model.heads * D}, Cut::columns, group * D, out_std, false);
  if (all_biases) out_.bias = add.bias("attn.out", C, Cut::columns, 1, false);

  norm2_ = add_norm_params(table, model, prefix + ".norm2", "block.norm2", layer);
  up_.n = gated_ ? 2 : 1;
  if (gated_) up_.weight = add.weight("mlp.gate", {F, C}, Cut::rows, 1, std, false);
  const ParamId up = add.weight("mlp.up", {F, C}, Cut::rows, 1, std, gated_);
  if (!gated_) up_.weight = up;
  if (all_biases) {
    if (gated_) up_.bias = add.bias("mlp.gate", F, Cut::rows, 1, false);
    const ParamId bias = add.bias("mlp.up", F, Cut::rows, 1, gated_);
    if (!gated_) up_.bias = bias;
  }
  down_.weight = add.weight("mlp.down", {C, F}, Cut::columns, 1, out_std, false);
  if (all_biases) down_.bias = add.bias("mlp.down", C, Cut::columns, 1, false);
}

}  // namespace trireme
