#pragma once
// Which layers of this rank are in FP8, from the deck. It decides and says what it decided; model/fp8.h does.

#include <memory>
#include <string>

#include "trireme/deck/deck.h"
#include "trireme/model/model.h"

namespace trireme {

// Null unless precision.compute = "fp8". n_tokens: of a micro-batch on this rank. Throws Error(Exit::usage) naming the
// layer whose sizes FP8 products cannot have.
std::unique_ptr<Fp8Weights> make_fp8_weights(const Deck& deck, const Model& model, const ParamStore& params,
                                             std::int64_t n_tokens, Arena& persistent);

// The decision for every product, with its sizes at this grid point, for the start-up table and the plan; empty unless
// precision.compute = "fp8".
std::string fp8_lines(const Deck& deck, const Model& model, const GridPoint& here);

}  // namespace trireme
