#include "trireme/infer/weights.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/check.h"
#include "trireme/data/token_description.h"
#include "trireme/io/checkpoint.h"
#include "trireme/io/hf_config.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// Of a training deck only what makes the model; the rest (grid, data, schedule) was for training.
std::string model_text(const ModelDeck& model, const std::string& compute) {
  Deck deck;
  deck.model = model;
  deck.precision.compute = compute;
  deck.precision.optimizer = compute == "fp64" ? "fp64" : "fp32";
  deck.data.source = "mock";
  return print_changes(deck);
}

// The element type that config.json announces, as precision.compute.
std::string compute_of(const HfFiles& files) {
  const DType dtype = files.at(files.names().front()).dtype;
  if (dtype == DType::bf16) return "bf16";
  return dtype == DType::f16 ? "fp16" : "fp32";
}

std::vector<DeckSource> found_folder(const std::string& path) {
  const HfModel hf = read_hf_config(path);
  const HfFiles files(path);
  if (files.names().empty()) throw Error(Exit::data, path + " holds no tensors");
  return {{"kind", "hugging_face"},
          {"path", path},
          {"deck", model_text(hf.model, compute_of(files))},
          {"end", hf.eos ? std::to_string(*hf.eos) : ""},
          {"tokenizer", path},
          {"fingerprint", ""}};
}

// The deck's, or what the files that it was trained on were made with, where they are still there and say so.
std::string tokenizer_of(const DataDeck& data) {
  if (!data.tokenizer.empty()) return data.tokenizer;
  if (data.source == "text") return "byte";
  if (data.source != "tokens" || data.paths.empty()) return "";
  const std::string& first = data.paths.front();
  const std::string prefix = first.ends_with(".bin") ? first.substr(0, first.size() - 4) : first;
  const auto made = read_token_description(prefix);
  std::error_code ignored;
  const bool there = made && (made->tokenizer_path == "byte" || fs::exists(made->tokenizer_path, ignored));
  return there ? made->tokenizer_path : "";
}

std::vector<DeckSource> found_checkpoint(const std::string& path) {
  const Attributes attributes = read_attributes(path);
  const auto text = attributes.find("deck");
  if (text == attributes.end())
    throw Error(Exit::data, path + " has no attribute \"deck\", so nothing says what model it holds");
  const Deck deck = parse_deck({{"deck of the checkpoint", text->second}}, {}, 0);  // its paths are those of the run
  const auto fingerprint = attributes.find("tokenizer");
  return {{"kind", "checkpoint"},
          {"path", path},
          {"deck", model_text(deck.model, deck.precision.compute)},
          {"end", deck.data.eod >= 0 ? std::to_string(deck.data.eod) : ""},
          {"tokenizer", tokenizer_of(deck.data)},
          {"fingerprint", fingerprint == attributes.end() ? "" : fingerprint->second}};
}

std::string newest(const std::string& folder) {
  std::vector<std::string> complaints;
  const std::vector<std::string> paths = find_checkpoints(folder, &complaints);
  if (!paths.empty()) return paths.front();
  std::string text = folder + " holds no checkpoint that can be read";
  for (const std::string& complaint : complaints) text += "\n  " + complaint;
  throw Error(Exit::data, text);
}

void check_override(const std::string& text) {
  const std::string key = text.substr(0, text.find('='));
  for (const char* allowed : {"precision.compute", "precision.allow_tf32", "device.", "parallel.tensor"})
    if (key.starts_with(allowed)) return;
  if (key == "parallel.pipeline" || key == "parallel.context" || key == "parallel.data")
    throw Error(Exit::usage, text +
                                 ": generate runs on one rank or on ranks that share each layer (parallel.tensor). A "
                                 "pipeline would idle on all stages but one for every token, context ranks have "
                                 "nothing to cut in a single token, and replicas would say the same");
  throw Error(Exit::usage, text +
                               ": generate takes precision.compute, precision.allow_tf32, device.* and "
                               "parallel.tensor; the rest comes with the weights");
}

}  // namespace

std::vector<DeckSource> find_weights(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return found_checkpoint(path);
  if (fs::exists(path + "/config.json", ignored)) return found_folder(path);
  if (fs::is_directory(path + "/checkpoints", ignored)) return found_checkpoint(newest(path + "/checkpoints"));
  return found_checkpoint(newest(path));
}

Weights weights_from(const std::vector<DeckSource>& found, std::span<const std::string> overrides, int n_ranks) {
  const auto text = [&](const char* name) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const DeckSource& s) { return s.file == name; });
    require(at != found.end(), std::string("what was found lacks ") + name);
    return at->text;
  };
  std::vector<std::string> settings = {"parallel.tensor=" + std::to_string(n_ranks), "parallel.sequence=false",
                                       "batch.global=1"};
  for (const std::string& override_text : overrides) {
    check_override(override_text);
    settings.push_back(override_text);
  }
  Weights weights;
  weights.path = text("path");
  weights.kind = text("kind") == "hugging_face" ? WeightsKind::hugging_face : WeightsKind::checkpoint;
  weights.deck = parse_deck({{weights.path + " (model)", text("deck")}}, settings, n_ranks);
  if (weights.deck.parallel.tensor != n_ranks)
    throw Error(Exit::usage, "parallel.tensor = " + std::to_string(weights.deck.parallel.tensor) + ", but there are " +
                                 std::to_string(n_ranks) + " ranks: start as many ranks as share the layers");
  if (!text("end").empty()) weights.end = std::stoll(text("end"));
  weights.tokenizer = text("tokenizer");
  weights.tokenizer_fingerprint = text("fingerprint");
  return weights;
}

}  // namespace trireme
