#pragma once
// Small models for tests, complete as the deck reader would leave them: between them they use every feature.

#include "trireme/deck/deck.h"

namespace trireme {

// LayerNorm, tanh GELU, learned positions, biases everywhere, tied embedding.
inline ModelDeck gpt2_like() {
  ModelDeck m;
  m.layers = 2;
  m.hidden = 12;
  m.heads = m.kv_heads = 3;
  m.head_dim = 4;
  m.ffn = 20;
  m.vocab = 23;
  m.vocab_multiple = 8;
  m.sequence = 8;
  m.init_std = 0.2;
  return m;
}

// RMSNorm, SwiGLU, rotary positions with Llama-3 scaling, grouped queries, QK-norm, untied head, z-loss.
inline ModelDeck llama_like() {
  ModelDeck m;
  m.layers = 2;
  m.hidden = 10;
  m.heads = 6;
  m.kv_heads = 2;
  m.head_dim = 4;
  m.ffn = 14;
  m.vocab = 29;
  m.vocab_multiple = 4;
  m.sequence = 10;
  m.norm = "rms";
  m.activation = "swiglu";
  m.position = "rope";
  m.bias = "qkv";
  m.qk_norm = true;
  m.tie_embeddings = false;
  m.rope_scaling = "llama3";
  m.rope_original_sequence = 4;
  m.z_loss = 0.05;
  m.init_std = 0.3;
  return m;
}

// Squared ReLU, a sliding window, no positions and no biases.
inline ModelDeck window_like() {
  ModelDeck m = gpt2_like();
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 6;
  m.activation = "relu_squared";
  m.position = "none";
  m.bias = "none";
  m.window = 3;
  m.init_std = 0.4;
  return m;
}

// Exact GELU behind an RMSNorm, biases and a rotated tied model.
inline ModelDeck mixed_like() {
  ModelDeck m = gpt2_like();
  m.norm = "rms";
  m.activation = "gelu_erf";
  m.position = "rope";
  m.rope_scaling = "linear";
  m.rope_factor = 2;
  m.z_loss = 0.02;
  return m;
}

// GPT-NeoX: attention and feed-forward side by side, a part of each head rotated.
inline ModelDeck neox_like() {
  ModelDeck m = gpt2_like();
  m.position = "rope";
  m.head_dim = 6;
  m.rope_fraction = 0.7;
  m.activation = "gelu_erf";
  m.parallel_residual = true;
  m.tie_embeddings = false;
  return m;
}

}  // namespace trireme
