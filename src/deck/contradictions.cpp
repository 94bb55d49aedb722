// Rules between the keys of the network and of training; those of the grid and the batch are in grid_rules.cpp.

#include "contradictions.h"

#include "print.h"
#include "trireme/deck/read.h"

namespace trireme {

namespace {

void check_heads(const ModelDeck& m, Contradictions& list) {
  if (m.head_dim == 0 && m.hidden % m.heads != 0) {
    list.push_back({{"model.hidden", "model.heads", "model.head_dim"},
                    setting("model.hidden", m.hidden) + " is not divisible by " + setting("model.heads", m.heads) +
                        ": change one of them or state model.head_dim"});
  }
  if (m.kv_heads > 0 && m.heads % m.kv_heads != 0) {
    list.push_back({{"model.heads", "model.kv_heads"},
                    setting("model.heads", m.heads) + " is not divisible by " + setting("model.kv_heads", m.kv_heads) +
                        ": every key/value head serves the same number of query heads"});
  }
}

void check_rope(const ModelDeck& m, Contradictions& list) {
  const std::int64_t head_dim = m.head_dim > 0 ? m.head_dim : m.hidden / m.heads;
  if (m.position == "rope" && m.rope_fraction == 1 && head_dim % 2 != 0) {
    list.push_back(
        {{"model.head_dim", "model.position", "model.hidden", "model.heads"},
         setting("model.head_dim", head_dim) + " is odd, but model.position = \"rope\" rotates pairs of channels"});
  }
  const std::int64_t rotated = rotated_channels(m);
  if (m.position == "rope" && m.rope_fraction < 1 && (rotated == 0 || rotated % 2 != 0)) {
    list.push_back({{"model.rope_fraction", "model.head_dim"},
                    setting("model.rope_fraction", m.rope_fraction) + " of " + setting("model.head_dim", head_dim) +
                        " rotates " + text_of(rotated) + " channels: an even number of them, at least 2, is needed"});
  }
  if (m.position != "rope" && m.rope_fraction != 1) {
    list.push_back({{"model.rope_fraction", "model.position"},
                    setting("model.rope_fraction", m.rope_fraction) + " has no effect with " +
                        setting("model.position", m.position)});
  }
  if (m.position != "rope" && m.rope_scaling != "none") {
    list.push_back({{"model.rope_scaling", "model.position"},
                    setting("model.rope_scaling", m.rope_scaling) + " has no effect with " +
                        setting("model.position", m.position)});
  }
  if (m.rope_scaling == "llama3" && m.rope_high_freq <= m.rope_low_freq) {
    list.push_back({{"model.rope_high_freq", "model.rope_low_freq"},
                    setting("model.rope_high_freq", m.rope_high_freq) + " must be above " +
                        setting("model.rope_low_freq", m.rope_low_freq)});
  }
}

bool no_block_in_fp8(const PrecisionDeck& p, const ModelDeck& m) {
  for (std::int64_t layer = p.fp8_first_bf16; layer < m.layers - p.fp8_last_bf16; ++layer) {
    if (std::find(p.fp8_bf16_layers.begin(), p.fp8_bf16_layers.end(), layer) == p.fp8_bf16_layers.end()) return false;
  }
  return true;
}

void check_fp8(const PrecisionDeck& p, const ModelDeck& m, Contradictions& list) {
  const PrecisionDeck usual;
  if (p.compute != "fp8") {
    const std::string but = " has no effect, but " + setting("precision.compute", p.compute);
    const auto unused = [&](const char* key, bool is_usual) {
      if (!is_usual) list.push_back({{key, "precision.compute"}, key + but});
    };
    unused("precision.fp8_first_bf16", p.fp8_first_bf16 == 0);
    unused("precision.fp8_last_bf16", p.fp8_last_bf16 == 0);
    unused("precision.fp8_bf16_layers", p.fp8_bf16_layers.empty());
    unused("precision.fp8_head", p.fp8_head == usual.fp8_head);
    unused("precision.fp8_power_of_two", p.fp8_power_of_two == usual.fp8_power_of_two);
    return;
  }
  if (no_block_in_fp8(p, m)) {
    list.push_back(
        {{"precision.fp8_first_bf16", "precision.fp8_last_bf16", "precision.fp8_bf16_layers", "model.layers"},
         setting("precision.fp8_first_bf16", p.fp8_first_bf16) + ", " +
             setting("precision.fp8_last_bf16", p.fp8_last_bf16) + " and precision.fp8_bf16_layers leave none of the " +
             std::to_string(m.layers) + " blocks in fp8: set precision.compute = \"bf16\" or keep fewer"});
  }
  for (const std::int64_t layer : p.fp8_bf16_layers) {
    if (layer >= 0 && layer < m.layers) continue;
    list.push_back({{"precision.fp8_bf16_layers", "model.layers"},
                    "precision.fp8_bf16_layers names block " + std::to_string(layer) + " of " +
                        std::to_string(m.layers) + ", counted from 0"});
  }
  if (p.fp8_recipe == "row" && !p.fp8_power_of_two) {
    list.push_back({{"precision.fp8_power_of_two", "precision.fp8_recipe"},
                    "precision.fp8_power_of_two = false needs precision.fp8_recipe = \"current\" or \"block\": rows "
                    "are turned for the weights' gradients by shifting exponents"});
  }
}

void check_precision(const PrecisionDeck& p, Contradictions& list) {
  const std::string but = ", but " + setting("precision.compute", p.compute);
  if (p.compute != "bf16" && p.compute != "fp8") {
    if (p.moments == "bf16") {
      list.push_back({{"precision.moments", "precision.compute"},
                      "precision.moments = \"bf16\" needs precision.compute = \"bf16\"" + but +
                          ": other weights are kept to compare bits, not to save memory"});
    }
    if (p.master == "remainder") {
      list.push_back({{"precision.master", "precision.compute"},
                      "precision.master = \"remainder\" needs precision.compute = \"bf16\"" + but +
                          ": only a bf16 weight is the upper half of an fp32 one"});
    }
    if (p.gradients == "bf16") {
      list.push_back({{"precision.gradients", "precision.compute"},
                      "precision.gradients = \"bf16\" needs precision.compute = \"bf16\"" + but +
                          ": bf16 sums would lose what finer weights resolve"});
    }
  }
  if (p.optimizer == "fp64" && (p.moments == "bf16" || p.master == "remainder")) {
    list.push_back(
        {{"precision.optimizer", "precision.moments", "precision.master"},
         "precision.optimizer = \"fp64\" keeps its state in fp64, so precision.moments and precision.master must "
         "stay \"fp32\""});
  }
  if (p.compute != "fp32" && p.allow_tf32) {
    list.push_back({{"precision.allow_tf32", "precision.compute"}, "precision.allow_tf32 = true has no effect" + but});
  }
  if (p.loss_scale < p.loss_scale_min) {
    list.push_back({{"precision.loss_scale", "precision.loss_scale_min"},
                    setting("precision.loss_scale", p.loss_scale) + " is below " +
                        setting("precision.loss_scale_min", p.loss_scale_min)});
  }
}

void check_lr(const Deck& deck, Contradictions& list) {
  const LrDeck& lr = deck.lr;
  const std::int64_t decay = lr.decay > 0 ? lr.decay : deck.run.steps;
  const std::string decay_is = setting("lr.decay", decay) + (decay == deck.run.steps ? " (run.steps)" : "");
  if (lr.shape != "constant" && lr.min > lr.max) {
    list.push_back({{"lr.min", "lr.max"}, setting("lr.min", lr.min) + " is above " + setting("lr.max", lr.max)});
  }
  if (lr.warmup >= decay) {
    list.push_back({{"lr.warmup", "lr.decay", "run.steps"},
                    setting("lr.warmup", lr.warmup) + " leaves no step before " + decay_is +
                        ": shorten the warm-up or state a later lr.decay"});
  }
  if (lr.shape != "wsd" && lr.wsd_decay > 0) {
    list.push_back({{"lr.wsd_decay", "lr.shape"},
                    setting("lr.wsd_decay", lr.wsd_decay) + " has no effect with " + setting("lr.shape", lr.shape)});
  }
  if (lr.shape == "wsd" && lr.wsd_decay > decay - lr.warmup) {
    list.push_back({{"lr.wsd_decay", "lr.decay", "lr.warmup", "run.steps"},
                    setting("lr.wsd_decay", lr.wsd_decay) + " is more than the " + text_of(decay - lr.warmup) +
                        " steps between " + setting("lr.warmup", lr.warmup) + " and " + decay_is});
  }
}

void check_files(const DataDeck& data, Contradictions& list) {
  const std::string with = " with " + setting("data.source", data.source);
  const bool mock = data.source == "mock";
  if (!mock && data.paths.empty()) {
    list.push_back({{"data.paths", "data.source"},
                    "data.paths is empty, but data.source = \"" + data.source +
                        "\" reads files: name them, or use data.source = \"mock\""});
  }
  const std::vector<std::string> path_keys{"data.paths", "data.validation_paths", "data.test_paths"};
  for (const auto& paths : {data.paths, data.validation_paths, data.test_paths}) {
    if (mock && !paths.empty()) {
      list.push_back({{"data.paths", "data.validation_paths", "data.test_paths", "data.source"},
                      "data.paths, data.validation_paths and data.test_paths have no effect" + with});
      break;
    }
    for (const std::string& path : paths) {
      if (path.empty()) list.push_back({path_keys, "a data path is empty: expected a file name"});
    }
  }
  if (mock && !data.tokenizer.empty())
    list.push_back(
        {{"data.tokenizer", "data.source"}, setting("data.tokenizer", data.tokenizer) + " has no effect" + with});
  if (data.source != "tokens" && data.dtype != "auto") {
    list.push_back({{"data.dtype", "data.source"}, setting("data.dtype", data.dtype) + " has no effect" + with});
  }
}

void check_weights(const DataDeck& data, Contradictions& list) {
  if (data.weights.empty()) return;
  if (data.weights.size() != data.paths.size()) {
    list.push_back({{"data.weights", "data.paths"},
                    "data.weights has " + std::to_string(data.weights.size()) + " entries, but data.paths has " +
                        std::to_string(data.paths.size()) + ": state one weight for each"});
  }
  for (const double weight : data.weights) {
    if (weight > 0) continue;
    list.push_back({{"data.weights"}, "data.weights holds " + text_of(weight) + ", expected numbers above 0"});
    break;
  }
}

void check_tokens(const Deck& deck, Contradictions& list) {
  const DataDeck& data = deck.data;
  const std::int64_t vocab = deck.model.vocab;
  const bool text = data.source == "text" && data.tokenizer == "byte";
  if (text && vocab < k_byte_tokens) {
    list.push_back({{"model.vocab", "data.source"},
                    setting("model.vocab", vocab) +
                        " is too small for data.source = \"text\": its byte tokenizer has 257 tokens "
                        "(256 bytes and the end of a document)"});
  } else if (data.eod >= vocab) {
    list.push_back({{"data.eod", "model.vocab"},
                    setting("data.eod", data.eod) + " is no token of " + setting("model.vocab", vocab)});
  }
  if (text && data.eod != -1 && data.eod != k_byte_end) {
    list.push_back(
        {{"data.eod", "data.source"},
         setting("data.eod", data.eod) + ", but the byte tokenizer of data.source = \"text\" ends documents with 256"});
  }
  if (data.mask_eod && data.eod == -1 && data.tokenizer.empty()) {
    list.push_back({{"data.mask_eod", "data.eod"},
                    "data.mask_eod = true needs data.eod, the id of the token to mask, or data.tokenizer"});
  }
  if ((data.mask_documents || data.reset_positions) && data.source == "mock" && data.eod == -1) {
    list.push_back({{"data.mask_documents", "data.reset_positions", "data.eod", "data.source"},
                    "data.mask_documents and data.reset_positions need documents: data.source = \"mock\" has some only "
                    "behind the token that data.eod names"});
  }
}

void check_validation(const Deck& deck, Contradictions& list) {
  const DataDeck& data = deck.data;
  const bool nothing = data.validation_paths.empty() && data.validation_fraction == 0;
  if (deck.eval.every > 0 && data.source != "mock" && nothing) {
    list.push_back({{"eval.every", "data.validation_fraction", "data.validation_paths"},
                    setting("eval.every", deck.eval.every) + " has nothing to evaluate: state data.validation_paths or "
                                                             "data.validation_fraction, or set eval.every = 0"});
  }
}

void check_run(const Deck& deck, Contradictions& list) {
  const RunDeck& run = deck.run;
  if (run.weights_only && (run.resume == "auto" || run.resume == "never")) {
    list.push_back(
        {{"run.weights_only", "run.resume"},
         "run.weights_only = true needs run.resume = a checkpoint file, found " + setting("run.resume", run.resume)});
  }
  if (run.name.find('/') != std::string::npos) {
    list.push_back({{"run.name"},
                    setting("run.name", run.name) + " holds a '/': a name is one folder; use run.output for a path"});
  }
  if (deck.device.kind == "cpu" && deck.device.comm == "nccl") {
    list.push_back(
        {{"device.comm", "device.kind"},
         "device.comm = \"nccl\" carries GPU memory only, but device.kind = \"cpu\": use \"mpi\" or \"auto\""});
  }
  if (deck.device.kind == "cuda" && deck.precision.compute == "fp64") {
    list.push_back(
        {{"precision.compute", "device.kind"},
         "precision.compute = \"fp64\" is the reference of the CPU and not offered with device.kind = \"cuda\""});
  }
}

}  // namespace

void check_model(const Deck& deck, Contradictions& list) {
  check_heads(deck.model, list);
  check_rope(deck.model, list);
}

void check_training(const Deck& deck, Contradictions& list) {
  check_precision(deck.precision, list);
  check_fp8(deck.precision, deck.model, list);
  check_lr(deck, list);
  check_files(deck.data, list);
  check_weights(deck.data, list);
  check_tokens(deck, list);
  check_validation(deck, list);
  check_run(deck, list);
}

Contradictions find_contradictions(const Deck& deck, int n_ranks) {
  Contradictions list;
  check_model(deck, list);
  check_grid(deck, n_ranks, list);
  check_batch(deck, n_ranks, list);
  check_training(deck, list);
  check_checkpoint(deck, list);
  return list;
}

std::vector<std::string> contradictions(const Deck& deck, int n_ranks) {
  std::vector<std::string> texts;
  for (Contradiction& contradiction : find_contradictions(deck, n_ranks))
    texts.push_back(std::move(contradiction.text));
  return texts;
}

}  // namespace trireme
