#pragma once
// From TOML text and command-line overrides to a Deck, and back. Every problem of a deck is reported in one Error with
// file, line and the nearest known key. It does not read data and does not know the hardware.

#include <span>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"

namespace trireme {

// A deck file with its includes pasted in order (an including file wins over the included), each with its name for
// messages. Plain text so that rank 0 reads and all ranks parse the same bytes.
struct DeckSource {
  std::string file, text;
};
std::vector<DeckSource> read_deck_files(const std::string& file);
std::string pack(const std::vector<DeckSource>& sources);  // for broadcasting
std::vector<DeckSource> unpack(const std::string& packed);

// Parses, applies "section.key=value" overrides (the value is TOML; bare words are taken as strings), fills what is
// derived (kv_heads, head_dim, ffn, output, lr.decay, paths relative to their deck) and checks. n_ranks = 0: unknown,
// checks of the grid against the ranks are skipped. Throws Error(Exit::usage) that lists everything found.
Deck parse_deck(const std::vector<DeckSource>& sources, std::span<const std::string> overrides, int n_ranks);

// Rules between keys; each entry is one complete message.
std::vector<std::string> contradictions(const Deck& deck, int n_ranks);

// The resolved deck as TOML that parse_deck reads back to the same Deck.
std::string print_deck(const Deck& deck);
// A deck that states only what differs from the defaults.
std::string print_changes(const Deck& deck);
// Every key with default, limit and text: inputs/reference.toml.
std::string print_reference();
// The keys whose values differ, as "model.hidden: 768 here, 1024 there".
std::vector<std::string> differences(const Deck& here, const Deck& there, std::span<const std::string> sections);

}  // namespace trireme
