#include "trireme/io/hf_config.h"

#include <fstream>
#include <random>
#include <sstream>

#include "catch.h"
#include "files.h"
#include "trireme/deck/read.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

namespace {

std::string fixture(const std::string& family) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/parity/hf/" + family;
}

std::string model_text(const ModelDeck& model) {
  Deck deck;
  deck.model = model;
  return print_changes(deck);
}

std::string problem(const std::string& json) {
  return error_of([&] { hf_config_from("config.json", json); });
}

const std::string k_llama_start =
    R"("hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
       "intermediate_size": 172, "vocab_size": 331, "max_position_embeddings": 128)";

std::string llama(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type + "\", " + k_llama_start + (more.empty() ? "" : ", ") + more + "}";
}

}  // namespace

TEST_CASE("what is written as config.json reads back as the same model") {
  for (const char* family :
       {"gpt2", "gpt_neox", "gpt_neox_serial", "llama", "llama31_tied", "mistral", "qwen2", "qwen3"}) {
    INFO(family);
    const HfModel hf = read_hf_config(fixture(family));

    HfModel ours = hf_model_of(hf.model);
    ours.eos = hf.eos;
    const HfModel again = hf_config_from("config.json", hf_config_text(ours, DType::f32));

    CHECK(model_text(again.model) == model_text(hf.model));
    CHECK(again.type == hf.type);
    CHECK(again.family == hf.family);
    CHECK(again.eos == hf.eos);
    CHECK(hf.notes.empty());
    CHECK(again.notes.empty());
  }
}

TEST_CASE("rotary positions are read in the spelling of transformers 4 and of 5") {
  const ModelDeck old = hf_config_from("c", llama("llama", R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0,
    "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"))
                            .model;
  const ModelDeck now = hf_config_from("c", llama("llama", R"("rope_parameters": {"factor": 8.0, "rope_theta": 500000.0,
    "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"))
                            .model;
  const ModelDeck linear =
      hf_config_from("c", llama("llama", R"("rope_scaling": {"type": "linear", "factor": 2.5})")).model;

  CHECK(model_text(old) == model_text(now));
  CHECK((old.rope_scaling == "llama3" && old.rope_theta == 500000 && old.rope_original_sequence == 8192));
  CHECK((linear.rope_scaling == "linear" && linear.rope_factor == 2.5 && linear.rope_theta == 10000));
}

TEST_CASE("a feature that the program lacks is refused by name") {
  CHECK_THAT(problem(R"({"model_type": "gemma2"})"), Contains("\"gemma2\"") && Contains("qwen3"));
  CHECK_THAT(problem("{}"), Contains("model_type"));
  CHECK_THAT(problem(llama("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})")), Contains("yarn"));
  CHECK_THAT(problem(llama("llama", R"("rope_parameters": {"rope_theta": 1e4, "attention_factor": 2.0})")),
             Contains("attention_factor"));
  CHECK_THAT(problem(llama("llama", R"("hidden_act": "gelu")")), Contains("hidden_act"));
  CHECK_THAT(problem(llama("llama", R"("attention_bias": true)")), Contains("attention_bias"));
  CHECK_THAT(problem(llama("qwen3", R"("attention_bias": true)")), Contains("attention_bias"));
  CHECK_THAT(problem(llama("llama", R"("quantization_config": {"bits": 4})")), Contains("quantization_config"));
  CHECK_THAT(problem(llama("qwen2", R"("use_sliding_window": true, "sliding_window": 32, "max_window_layers": 1)")),
             Contains("only 2 of 3 layers"));
  CHECK_THAT(problem(R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64,
                         "vocab_size": 331, "scale_attn_by_inverse_layer_idx": true})"),
             Contains("scale_attn_by_inverse_layer_idx"));
  CHECK_THAT(problem(R"({"model_type": "llama", "hidden_size": "many"})"), Contains("hidden_size"));
}

TEST_CASE("settings that mean something, and those that nobody knows") {
  CHECK(hf_config_from("c", llama("mistral", "")).model.window == 4096);
  CHECK(hf_config_from("c", llama("mistral", R"("sliding_window": null)")).model.window == 0);
  CHECK(hf_config_from("c", llama("qwen2", R"("sliding_window": 32)")).model.window == 0);
  CHECK(
      hf_config_from("c", llama("qwen2", R"("use_sliding_window": true, "sliding_window": 32, "max_window_layers": 0)"))
          .model.window == 32);
  CHECK(hf_config_from("c", llama("llama", R"("attention_bias": true, "mlp_bias": true)")).model.bias == "all");
  CHECK(hf_config_from("c", llama("qwen3", R"("head_dim": 16)")).model.qk_norm);

  const HfModel hf =
      hf_config_from("c", llama("llama", R"("eos_token_id": [7, 8], "wing_span": 3, "attention_dropout": 0.1)"));

  CHECK(hf.eos == 7);
  REQUIRE(hf.notes.size() == 2);
  CHECK_THAT(hf.notes[0], Contains("attention dropout"));
  CHECK_THAT(hf.notes[1], Contains("wing_span = 3"));
}

TEST_CASE("a deck that is no Hugging Face model is refused with the key") {
  const auto refusal = [](const std::function<void(ModelDeck&)>& change) {
    ModelDeck deck = read_hf_config(fixture("llama")).model;
    change(deck);
    return error_of([&] { hf_model_of(deck); });
  };
  CHECK_THAT(refusal([](ModelDeck& d) { d.norm = "layer"; }), Contains("model.norm"));
  CHECK_THAT(refusal([](ModelDeck& d) { d.parallel_residual = true; }), Contains("model.parallel_residual"));
  CHECK_THAT(refusal([](ModelDeck& d) { d.activation = "relu_squared"; }), Contains("relu_squared"));
  CHECK_THAT(refusal([](ModelDeck& d) { d.bias = "qkv", d.qk_norm = true; }), Contains("model.qk_norm"));
}

TEST_CASE("damaged configurations are refused or read, never worse") {
  std::ifstream in(fixture("llama31_tied") + "/config.json");
  std::stringstream whole;
  whole << in.rdbuf();
  std::mt19937 random(1);
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = whole.str();
    for (int change = 0; change < 1 + trial % 3; ++change) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) text[at] = static_cast<char>(random() % 256);
      if (random() % 4 == 0) text.erase(at, random() % 20);
      if (text.empty()) text = "x";
    }
    try {
      hf_config_from("config.json", text);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
