#pragma once
// What each array of the new checkpoint is made of: the same lists that a run of the target deck would save and load.
// It knows decks and arrays; it moves nothing.

#include <optional>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/io/reader.h"
#include "trireme/train/state.h"

namespace trireme::reshard {

enum class Making : std::uint8_t {
  convert,    // of `source`
  join,       // fp32 masters from weights (`source`) and their remainders (`second`)
  weight,     // bf16 weights of remainders: `source` (masters), rounded as masters are
  remainder,  // what those weights lack of `source`
};

struct Recipe {
  std::size_t target = 0;  // number of the array
  Making making = Making::convert;
  std::string source, second;
};

struct Plan {
  std::vector<Stored> targets;  // without pieces
  std::vector<Recipe> recipes;  // one per target
};

// Throws Error(Exit::data) when the file lacks what the target needs or has other shapes.
Plan make_plan(const CheckpointReader& in, const Deck& target, Contents contents);

}  // namespace trireme::reshard
