#pragma once
// config.json of Hugging Face models and the [model] section of a deck, one from the other: GPT-2, GPT-NeoX, Llama,
// Mistral, Qwen 2 and 3 (dense). A feature that the program lacks is refused by name. It reads and writes no weights.

#include <optional>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/io/hugging_face.h"

namespace trireme {

struct HfModel {
  std::string type;  // model_type: "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3"
  HfFamily family = HfFamily::llama;
  ModelDeck model;                       // complete; sequence is the longest that the config allows
  std::optional<std::int64_t> bos, eos;  // token ids, where the config names one
  std::vector<std::string> notes;        // what was read and has no meaning here, one sentence each
};

// From FOLDER/config.json. Throws Error(Exit::data) that names file, key, value and what is possible.
HfModel read_hf_config(const std::string& folder);
HfModel hf_config_from(const std::string& path, const std::string& json);  // path: for messages

// The kind of model that a deck describes; throws Error(Exit::usage) naming the key that no Hugging Face model of these
// kinds has. bos, eos and notes are empty.
HfModel hf_model_of(const ModelDeck& deck);

// config.json for a model whose weights are stored in `dtype`. Rotary positions are written in the new spelling
// (rope_parameters) and, for transformers 4, in the old.
std::string hf_config_text(const HfModel& model, DType dtype);

}  // namespace trireme
