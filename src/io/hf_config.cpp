#include "trireme/io/hf_config.h"

#include <algorithm>
#include <map>

#include "hf_keys.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// Words of Hugging Face for our activations; gated ones are told by the kind of model.
const std::map<std::string, std::string> k_activations = {{"gelu", "gelu_erf"},
                                                          {"gelu_new", "gelu_tanh"},
                                                          {"gelu_pytorch_tanh", "gelu_tanh"},
                                                          {"gelu_fast", "gelu_tanh"},
                                                          {"relu2", "relu_squared"}};

std::string plain_activation(HfKeys& keys, const std::string& key, const std::string& otherwise) {
  const auto found = k_activations.find(keys.text(key, otherwise));
  if (found == k_activations.end()) keys.refuse(key, "expected gelu, gelu_new, gelu_pytorch_tanh, gelu_fast or relu2");
  return found->second;
}

// What says nothing about the computation, for every kind.
void pass_over_common(HfKeys& keys) {
  keys.neutral({"architectures",
                "auto_map",
                "chunk_size_feed_forward",
                "dtype",
                "torch_dtype",
                "transformers_version",
                "use_cache",
                "pad_token_id",
                "model_type",
                "initializer_range",
                "return_dict",
                "output_hidden_states",
                "output_attentions",
                "_name_or_path",
                "_attn_implementation",
                "task_specific_params",
                "id2label",
                "label2id",
                "problem_type",
                "max_window_layers",
                "pretraining_tp",
                "classifier_dropout",
                "gradient_checkpointing",
                "rope_theta",
                "rope_scaling",
                "rope_parameters",
                "rotary_pct",
                "rotary_emb_base",
                "partial_rotary_factor"});
  keys.must_be("is_encoder_decoder", false, "this program has decoders only");
  keys.must_be("add_cross_attention", false, "this program has no cross attention");
  if (keys.find("quantization_config") != nullptr)
    keys.refuse("quantization_config", "quantised weights are not read; save the model in bf16, fp16 or fp32 first");
}

// The rotary embedding: rope_parameters (transformers 5), or rope_theta and rope_scaling, or GPT-NeoX's own words.
void read_rope(HfKeys& keys, ModelDeck& m, double theta, double fraction) {
  m.position = "rope";
  theta = keys.number("rotary_emb_base", keys.number("rope_theta", theta));
  fraction = keys.number("rotary_pct", keys.number("partial_rotary_factor", fraction));
  const std::string key = keys.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* object = keys.find(key);
  if (object != nullptr && !object->is_object()) keys.refuse(key, "expected an object");
  HfKeys rope(keys.path() + ": " + key, object == nullptr ? Json::object() : *object);
  m.rope_theta = rope.number("rope_theta", theta);
  m.rope_fraction = rope.number("partial_rotary_factor", fraction);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "linear" || type == "llama3") m.rope_factor = rope.number("factor", 1);
  if (type == "llama3") {
    m.rope_low_freq = rope.number("low_freq_factor", 1);
    m.rope_high_freq = rope.number("high_freq_factor", 4);
    m.rope_original_sequence = rope.size("original_max_position_embeddings");
  }
  if (type != "default" && type != "linear" && type != "llama3")
    rope.refuse("rope_type", "this program has the rotary scalings default, linear and llama3");
  m.rope_scaling = type == "default" ? "none" : type;
  const std::vector<std::string> unknown = rope.unknown();
  if (!unknown.empty()) keys.refuse(key, "\"" + unknown.front() + "\" has no counterpart here");
}

// Sliding attention is all or nothing here. layer_types names each layer; without it max_window_layers counts the
// layers from below that do not slide.
void read_window(HfKeys& keys, ModelDeck& m, bool slides, std::int64_t otherwise) {
  keys.neutral({"sliding_window"});
  const std::int64_t window = keys.is_null("sliding_window") ? 0 : keys.size("sliding_window", otherwise);
  std::int64_t n_sliding = slides && window > 0 ? m.layers : 0;
  if (const Json* types = keys.find("layer_types"); types != nullptr && types->is_array()) {
    n_sliding = std::count(types->begin(), types->end(), Json("sliding_attention"));
    if (n_sliding + std::count(types->begin(), types->end(), Json("full_attention")) != m.layers)
      keys.refuse("layer_types", "expected \"full_attention\" or \"sliding_attention\" for each layer");
  } else if (n_sliding > 0 && keys.find("use_sliding_window") != nullptr) {
    n_sliding = std::max<std::int64_t>(0, m.layers - keys.size("max_window_layers", 28));
  }
  if (n_sliding != 0 && n_sliding != m.layers)
    keys.refuse("sliding_window", "only " + std::to_string(n_sliding) + " of " + std::to_string(m.layers) +
                                      " layers slide; this program has one window for all layers");
  m.window = n_sliding > 0 ? window : 0;
}

void read_sizes(HfKeys& keys, ModelDeck& m) {
  m.hidden = keys.size("hidden_size");
  m.layers = keys.size("num_hidden_layers");
  m.heads = keys.size("num_attention_heads");
  m.kv_heads = keys.size("num_key_value_heads", m.heads);
  if (m.heads < 1 || m.hidden < 1) keys.refuse("num_attention_heads", "expected at least one head and one channel");
  m.head_dim = keys.size("head_dim", m.hidden / m.heads);
  m.ffn = keys.size("intermediate_size");
  m.vocab = keys.size("vocab_size");
  m.sequence = keys.size("max_position_embeddings");
}

ModelDeck read_gpt2(HfKeys& keys) {
  ModelDeck m;
  m.hidden = keys.size("n_embd");
  m.layers = keys.size("n_layer");
  m.heads = m.kv_heads = keys.size("n_head");
  if (m.heads < 1 || m.hidden % m.heads != 0) keys.refuse("n_head", "expected a divisor of n_embd");
  m.head_dim = m.hidden / m.heads;
  m.ffn = keys.size("n_inner", 4 * m.hidden);
  m.vocab = keys.size("vocab_size");
  m.sequence = keys.find("n_positions") != nullptr ? keys.size("n_positions") : keys.size("n_ctx");
  m.norm_eps = keys.number("layer_norm_epsilon", 1e-5);
  m.activation = plain_activation(keys, "activation_function", "gelu_new");
  m.tie_embeddings = keys.flag("tie_word_embeddings", true);
  m.dropout = keys.number("resid_pdrop", 0.1);
  keys.must_be("scale_attn_weights", true, "scores are always divided by the root of the head size");
  keys.must_be("scale_attn_by_inverse_layer_idx", false, "scores do not depend on the layer");
  keys.neutral({"n_ctx", "embd_pdrop", "attn_pdrop", "reorder_and_upcast_attn", "summary_activation",
                "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"});
  return m;
}

ModelDeck read_neox(HfKeys& keys) {
  ModelDeck m;
  read_sizes(keys, m);
  read_rope(keys, m, 10000, 0.25);
  m.norm_eps = keys.number("layer_norm_eps", 1e-5);
  m.activation = plain_activation(keys, "hidden_act", "gelu");
  m.parallel_residual = keys.flag("use_parallel_residual", true);
  m.tie_embeddings = keys.flag("tie_word_embeddings", false);
  m.dropout = keys.number("hidden_dropout", 0);
  keys.must_be("attention_bias", true, "with GPT-NeoX all linear layers have biases here");
  keys.must_be("is_decoder", false, "the switch of a wrapper that this program does not have");
  return m;
}

// Llama and its relatives: RMS norm, SwiGLU, rotary positions.
ModelDeck read_llama(HfKeys& keys, const std::string& type) {
  ModelDeck m;
  read_sizes(keys, m);
  read_rope(keys, m, 10000, 1);
  m.norm = "rms";
  m.norm_eps = keys.number("rms_norm_eps", 1e-6);
  m.activation = "swiglu";
  m.tie_embeddings = keys.flag("tie_word_embeddings", false);
  m.qk_norm = type == "qwen3";
  const std::string act = keys.text("hidden_act", "silu");
  if (act != "silu" && act != "swish") keys.refuse("hidden_act", "gated feed-forward layers have silu here");
  const bool attention = keys.flag("attention_bias", type == "qwen2"), mlp = keys.flag("mlp_bias", false);
  m.bias = type == "qwen2" ? "qkv" : attention ? "all" : "none";
  if (type == "llama" && attention != mlp)
    keys.refuse("attention_bias", "biases are on all linear layers (attention_bias and mlp_bias) or on none");
  if (type != "llama" && type != "qwen2" && attention)
    keys.refuse("attention_bias", "biases of the attention alone, the output's included, are not offered");
  const bool slides = type == "mistral" || (type != "llama" && keys.flag("use_sliding_window", false));
  read_window(keys, m, slides, type == "mistral" ? 4096 : 0);
  return m;
}

ModelDeck read_model(HfKeys& keys, HfModel& hf) {
  hf.type = keys.text("model_type", "");
  hf.family = hf.type == "gpt2" ? HfFamily::gpt2 : hf.type == "gpt_neox" ? HfFamily::neox : HfFamily::llama;
  if (hf.type == "gpt2") return read_gpt2(keys);
  if (hf.type == "gpt_neox") return read_neox(keys);
  if (hf.type == "llama" || hf.type == "mistral" || hf.type == "qwen2" || hf.type == "qwen3")
    return read_llama(keys, hf.type);
  keys.refuse("model_type", "this program reads gpt2, gpt_neox, llama, mistral, qwen2 and qwen3");
}

void add_notes(HfKeys& keys, HfModel& hf) {
  for (const char* key : {"attn_pdrop", "attention_dropout"}) {
    const double p = keys.number(key, 0);
    if (p > 0)
      hf.notes.push_back(std::string(key) + " = " + std::to_string(p) +
                         " is not taken over: attention dropout is not offered");
  }
  if (hf.type == "gpt2" && keys.number("embd_pdrop", 0.1) != hf.model.dropout)
    hf.notes.push_back("embd_pdrop is not taken over: model.dropout, from resid_pdrop, is for both");
  for (const std::string& line : keys.unknown()) hf.notes.push_back(line + " is not known and has no effect");
}

}  // namespace

HfModel hf_config_from(const std::string& path, const std::string& json) {
  Json root = parse_json(path, json);
  if (!root.is_object()) throw Error(Exit::data, path + ": is not a JSON object");
  HfKeys keys(path, std::move(root));
  HfModel hf;
  hf.model = read_model(keys, hf);
  pass_over_common(keys);
  hf.bos = keys.token("bos_token_id");
  hf.eos = keys.token("eos_token_id");
  add_notes(keys, hf);
  return hf;
}

HfModel read_hf_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return hf_config_from(path, read_json(path).dump());
}

}  // namespace trireme
