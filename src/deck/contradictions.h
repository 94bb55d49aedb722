#pragma once
// Rules between keys, each with the keys it speaks about so that a message can point at the line that states one of
// them.

#include <string>
#include <vector>

#include "trireme/deck/deck.h"

namespace trireme {

// The byte tokenizer: 256 bytes and the end-of-document token.
inline constexpr std::int64_t k_byte_tokens = 257, k_byte_end = 256;

struct Contradiction {
  std::vector<std::string> keys;
  std::string text;
};

using Contradictions = std::vector<Contradiction>;

// n_ranks = 0: unknown. Derived values may be filled in or still zero.
Contradictions find_contradictions(const Deck& deck, int n_ranks);

// Its parts: what the network, the grid, and the way of training ask for.
void check_model(const Deck& deck, Contradictions& list);
void check_grid(const Deck& deck, int n_ranks, Contradictions& list);
void check_batch(const Deck& deck, int n_ranks, Contradictions& list);
void check_training(const Deck& deck, Contradictions& list);
void check_checkpoint(const Deck& deck, Contradictions& list);

}  // namespace trireme
