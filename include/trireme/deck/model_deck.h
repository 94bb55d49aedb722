#pragma once
// Deck section [model]: the network.

#include <cstdint>
#include <string>

#include "trireme/deck/field.h"

namespace trireme {

struct ModelDeck {
  std::int64_t layers = 12, hidden = 768, heads = 12, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 50257,
               vocab_multiple = 128;
  std::int64_t sequence = 1024, window = 0;
  std::string norm = "layer", activation = "gelu_tanh", position = "learned", bias = "all", rope_scaling = "none";
  double norm_eps = 1e-5, rope_theta = 10000, rope_fraction = 1, rope_factor = 8, rope_low_freq = 1, rope_high_freq = 4;
  std::int64_t rope_original_sequence = 8192;
  bool tie_embeddings = true, qk_norm = false, parallel_residual = false;
  double dropout = 0, attention_dropout = 0, init_std = 0.02, z_loss = 0;
  bool scaled_init = true;
  template <class V>
  void describe(V& v) {
    v.field("layers", layers, "transformer blocks", size_from(1));
    v.field("hidden", hidden, "channels of the residual stream", size_from(1));
    v.field("heads", heads, "query heads", size_from(1));
    v.field("kv_heads", kv_heads, "key/value heads (grouped-query attention); 0: as many as heads", size_from(0));
    v.field("head_dim", head_dim, "channels of a head; 0: hidden / heads", size_from(0));
    v.field("ffn", ffn, "features of the feed-forward layer; 0: 4 hidden, for swiglu 8/3 hidden rounded up to 64",
            size_from(0));
    v.field("vocab", vocab, "tokens of the tokenizer (data.source = \"text\": 257 or more)", size_from(2));
    v.field("vocab_multiple", vocab_multiple,
            "the vocabulary is padded to a multiple of this, whatever the grid; padding has probability 0",
            size_from(1));
    v.field("sequence", sequence, "tokens of a training sequence", size_from(1));
    v.field("window", window, "sliding attention window in tokens, the token itself included; 0: full", size_from(0));
    v.field("norm", norm, "normalisation", one_of({"layer", "rms"}));
    v.field("norm_eps", norm_eps, "added to the variance", above(0));
    v.field("activation", activation, "of the feed-forward layer",
            one_of({"gelu_tanh", "gelu_erf", "relu_squared", "swiglu"}));
    v.field("position", position, "positions: a learned table, rotary, or none", one_of({"learned", "rope", "none"}));
    v.field("bias", bias, "biases of the linear layers: all, only q, k and v, or none", one_of({"all", "qkv", "none"}));
    v.field("qk_norm", qk_norm, "RMS norm of each query and key head before the rotation (Qwen 3)", any<bool>());
    v.field("parallel_residual", parallel_residual,
            "attention and feed-forward both read the block's input and are added to it (GPT-NeoX)", any<bool>());
    v.field("rope_theta", rope_theta, "base of the rotary frequencies", above(0));
    v.field("rope_fraction", rope_fraction, "part of each head's channels that is rotated (GPT-NeoX, Pythia: 0.25)",
            between(0.0, 1.0));
    v.field("rope_scaling", rope_scaling,
            "how the frequencies are stretched: none, linear (by rope_factor), or as in Llama 3",
            one_of({"none", "linear", "llama3"}));
    v.field("rope_factor", rope_factor, "factor of linear and llama3 scaling", above(0));
    v.field("rope_low_freq", rope_low_freq,
            "llama3: wavelengths above rope_original_sequence / this are stretched in full", above(0));
    v.field("rope_high_freq", rope_high_freq, "llama3: wavelengths below rope_original_sequence / this are left alone",
            above(0));
    v.field("rope_original_sequence", rope_original_sequence, "llama3: sequence length of the first training",
            size_from(1));
    v.field("tie_embeddings", tie_embeddings, "the LM head uses the token embedding", any<bool>());
    v.field("dropout", dropout, "probability of dropping an element after the embedding and at the end of each branch",
            between(0.0, 0.999));
    v.field("attention_dropout", attention_dropout,
            "not offered: flash-attention kernels cannot draw it independently of the grid; must be 0",
            between(0.0, 0.0));
    v.field("init_std", init_std, "standard deviation of the initial weights", above(0));
    v.field("scaled_init", scaled_init,
            "initial output projections of attention and feed-forward are divided by sqrt(2 layers)", any<bool>());
    v.field("z_loss", z_loss,
            "coefficient of the squared log of the softmax sum (PaLM, section 5); not part of the reported loss",
            at_least(0.0));
  }
};

// Channels of a head that the rotary embedding turns, rounded down.
inline std::int64_t rotated_channels(const ModelDeck& model) {
  const std::int64_t head_dim = model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
  return static_cast<std::int64_t>(model.rope_fraction * static_cast<double>(head_dim));
}

}  // namespace trireme
