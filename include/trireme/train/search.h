#pragma once
// All layouts of a deck on so many ranks, the best of them by predicted step time, and why the others fail. The global
// batch, the model and the precision stay as the deck says.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/train/predict.h"

namespace trireme {

enum class TensorAcrossNodes : std::uint8_t { never, allowed };

struct SearchSettings {
  int n_ranks = 1;
  DeviceKind kind = DeviceKind::cuda;
  TensorAcrossNodes tensor_across_nodes = TensorAcrossNodes::never;
  std::set<std::string> fixed;  // keys that keep the deck's value: "parallel.tensor", "batch.micro", ...
};

struct FoundLayout {
  std::vector<std::string> overrides;  // "parallel.tensor=8", what to add to the deck's command line
  Deck deck;
  std::array<int, k_n_axes> size{};
  Prediction prediction;
};

struct SearchResult {
  std::vector<FoundLayout> layouts;            // that fit, fastest first
  std::map<std::string, std::int64_t> failed;  // reason -> number of layouts
  std::int64_t n_looked_at = 0;
};

// The best layouts, the line to start the first of them with, and the reasons; as text or as one JSON object.
std::string search_text(const SearchResult& result, const Machine& machine, const SearchSettings& settings, int n_best);
std::string search_json(const SearchResult& result, const Machine& machine, const SearchSettings& settings, int n_best);

SearchResult search_layouts(const Deck& deck, const Machine& machine, const SearchSettings& settings);

}  // namespace trireme
