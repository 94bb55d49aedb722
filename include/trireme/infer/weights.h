#pragma once
// What a generator is made of: a checkpoint, a run folder or a Hugging Face folder, looked up and described. It loads
// no weights.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/deck/read.h"

namespace trireme {

enum class WeightsKind : std::uint8_t { checkpoint, hugging_face };

struct Weights {
  std::string path;  // of the checkpoint file or the Hugging Face folder
  WeightsKind kind = WeightsKind::checkpoint;
  Deck deck;                          // model, precision, grid
  std::optional<std::int64_t> end;    // id of the token after which a text is over
  std::string tokenizer;              // what open_tokenizer takes; empty: nothing names one
  std::string tokenizer_fingerprint;  // of the one it was trained with; empty: not known
};

// One process looks (a folder, a file, a run folder with checkpoints/latest); the text travels to the others. Throws
// Error(Exit::data).
std::vector<DeckSource> find_weights(const std::string& path);

// overrides: precision.compute, device.*, parallel.tensor; others are refused with the reason. The grid is tensor
// parallel over all ranks. Throws Error(Exit::usage).
Weights weights_from(const std::vector<DeckSource>& found, std::span<const std::string> overrides, int n_ranks);

}  // namespace trireme
