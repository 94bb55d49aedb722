#include "json_file.h"
#include "trireme/base/check.h"
#include "trireme/io/hf_config.h"

namespace trireme {

namespace {

using Ordered = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& setting, const std::string& instead) {
  throw Error(Exit::usage, "no Hugging Face model of the kinds gpt2, gpt_neox, llama, mistral, qwen2, qwen3 has " +
                               setting + "; " + instead);
}

// A rope that only GPT-NeoX has, or nothing that these have.
void check_llama(const ModelDeck& d) {
  if (d.norm != "rms") refuse("model.norm = \"layer\" with model.activation = \"swiglu\"", "such models use \"rms\"");
  if (d.position != "rope") refuse("model.position = \"" + d.position + "\" with model.norm = \"rms\"", "use \"rope\"");
  if (d.parallel_residual) refuse("model.parallel_residual with model.norm = \"rms\"", "gpt_neox has LayerNorm");
  if (d.rope_fraction != 1) refuse("model.rope_fraction < 1 with model.norm = \"rms\"", "gpt_neox has LayerNorm");
  if (d.qk_norm && d.bias != "none") refuse("model.qk_norm with biases", "qwen3 has model.bias = \"none\"");
  if (d.bias == "all" && d.window > 0)
    refuse("a window with biases on all layers", "mistral has model.bias = \"none\"");
}

void check_layer_norm(const ModelDeck& d) {
  if (d.norm != "layer")
    refuse("model.norm = \"rms\" with model.activation = \"" + d.activation + "\"", "use \"swiglu\"");
  if (d.bias != "all") refuse("model.norm = \"layer\" with model.bias = \"" + d.bias + "\"", "these have \"all\"");
  if (d.kv_heads != d.heads) refuse("LayerNorm with fewer key/value heads", "use model.norm = \"rms\"");
  if (d.head_dim * d.heads != d.hidden) refuse("LayerNorm with heads * head_dim other than hidden", "use \"rms\"");
  if (d.window > 0 || d.qk_norm) refuse("LayerNorm with a window or a QK-norm", "use model.norm = \"rms\"");
  if (d.position == "none") refuse("model.position = \"none\"", "use \"learned\" or \"rope\"");
  if (d.position == "learned" && d.parallel_residual)
    refuse("learned positions with a parallel residual", "use \"rope\"");
}

std::string llama_type(const ModelDeck& d) {
  if (d.qk_norm) return "qwen3";
  if (d.bias == "qkv") return "qwen2";
  return d.window > 0 ? "mistral" : "llama";
}

const char* architecture(const std::string& type) {
  if (type == "gpt2") return "GPT2LMHeadModel";
  if (type == "gpt_neox") return "GPTNeoXForCausalLM";
  if (type == "llama") return "LlamaForCausalLM";
  if (type == "mistral") return "MistralForCausalLM";
  return type == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM";
}

const char* activation(const std::string& ours) {
  if (ours == "gelu_tanh") return "gelu_new";
  return ours == "gelu_erf" ? "gelu" : "relu2";
}

const char* type_name(DType dtype) {
  if (dtype == DType::f64) return "float64";
  if (dtype == DType::f32) return "float32";
  return dtype == DType::bf16 ? "bfloat16" : "float16";
}

void add_gpt2(Ordered& c, const ModelDeck& d) {
  c["n_embd"] = d.hidden;
  c["n_layer"] = d.layers;
  c["n_head"] = d.heads;
  c["n_inner"] = d.ffn;
  c["n_positions"] = d.sequence;
  c["activation_function"] = activation(d.activation);
  c["layer_norm_epsilon"] = d.norm_eps;
  c["resid_pdrop"] = c["embd_pdrop"] = d.dropout;
  c["attn_pdrop"] = 0.0;
}

void add_rope(Ordered& c, const ModelDeck& d, const std::string& type) {
  Ordered rope = {{"rope_type", d.rope_scaling == "none" ? "default" : d.rope_scaling}, {"rope_theta", d.rope_theta}};
  if (type == "gpt_neox") rope["partial_rotary_factor"] = d.rope_fraction;
  if (d.rope_scaling != "none") rope["factor"] = d.rope_factor;
  if (d.rope_scaling == "llama3") {
    rope["low_freq_factor"] = d.rope_low_freq;
    rope["high_freq_factor"] = d.rope_high_freq;
    rope["original_max_position_embeddings"] = d.rope_original_sequence;
  }
  c["rope_parameters"] = rope;
  c[type == "gpt_neox" ? "rotary_emb_base" : "rope_theta"] = d.rope_theta;
  if (type == "gpt_neox") c["rotary_pct"] = d.rope_fraction;
  rope.erase("rope_theta");
  rope.erase("partial_rotary_factor");
  if (d.rope_scaling != "none") c["rope_scaling"] = rope;
}

void add_sizes(Ordered& c, const ModelDeck& d) {
  c["hidden_size"] = d.hidden;
  c["num_hidden_layers"] = d.layers;
  c["num_attention_heads"] = d.heads;
  c["intermediate_size"] = d.ffn;
  c["max_position_embeddings"] = d.sequence;
}

void add_neox(Ordered& c, const ModelDeck& d) {
  add_sizes(c, d);
  c["hidden_act"] = activation(d.activation);
  c["layer_norm_eps"] = d.norm_eps;
  c["use_parallel_residual"] = d.parallel_residual;
  c["attention_bias"] = true;
  c["hidden_dropout"] = d.dropout;
  c["attention_dropout"] = 0.0;
}

void add_llama(Ordered& c, const ModelDeck& d, const std::string& type) {
  add_sizes(c, d);
  c["num_key_value_heads"] = d.kv_heads;
  if (type != "qwen2") c["head_dim"] = d.head_dim;
  c["hidden_act"] = "silu";
  c["rms_norm_eps"] = d.norm_eps;
  c["attention_dropout"] = 0.0;
  if (type == "llama") c["attention_bias"] = c["mlp_bias"] = d.bias == "all";
  if (type == "qwen3") c["attention_bias"] = false;
  if (type == "mistral") c["sliding_window"] = d.window > 0 ? Ordered(d.window) : Ordered(nullptr);
  if (type != "qwen2" && type != "qwen3") return;
  c["use_sliding_window"] = d.window > 0;
  c["sliding_window"] = d.window > 0 ? Ordered(d.window) : Ordered(nullptr);
  c["max_window_layers"] = d.window > 0 ? 0 : d.layers;
  c["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(d.layers),
                                              d.window > 0 ? "sliding_attention" : "full_attention");
}

}  // namespace

HfModel hf_model_of(const ModelDeck& deck) {
  HfModel hf;
  hf.model = deck;
  if (deck.activation == "swiglu") {
    check_llama(deck);
    hf.type = llama_type(deck);
    if (hf.type == "qwen2" && deck.head_dim * deck.heads != deck.hidden)
      refuse("model.bias = \"qkv\" with heads * head_dim other than hidden", "qwen2 has no such heads");
    return hf;
  }
  check_layer_norm(deck);
  hf.type = deck.position == "learned" ? "gpt2" : "gpt_neox";
  hf.family = deck.position == "learned" ? HfFamily::gpt2 : HfFamily::neox;
  return hf;
}

std::string hf_config_text(const HfModel& hf, DType dtype) {
  const ModelDeck& d = hf.model;
  Ordered c = {{"architectures", {architecture(hf.type)}},
               {"model_type", hf.type},
               {"dtype", type_name(dtype)},
               {"torch_dtype", type_name(dtype)}};
  if (hf.type == "gpt2") add_gpt2(c, d);
  if (hf.type == "gpt_neox") add_neox(c, d);
  if (hf.family == HfFamily::llama) add_llama(c, d, hf.type);
  if (hf.type != "gpt2") add_rope(c, d, hf.type);
  c["initializer_range"] = d.init_std;
  c["tie_word_embeddings"] = d.tie_embeddings;
  c["vocab_size"] = d.vocab;
  c["bos_token_id"] = hf.bos ? Ordered(*hf.bos) : Ordered(nullptr);
  c["eos_token_id"] = hf.eos ? Ordered(*hf.eos) : Ordered(nullptr);
  c["use_cache"] = true;
  return c.dump(2) + "\n";
}

}  // namespace trireme
