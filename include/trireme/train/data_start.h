#pragma once
// What a run does with the data section before the first step: ask the tokenizer, count how often it will pass over
// each corpus. It reads no batches.

#include <string>
#include <vector>

#include "trireme/comm/mpi.h"
#include "trireme/data/sampler.h"
#include "trireme/deck/deck.h"

namespace trireme {

// The deck with data.eod from data.tokenizer; `tokenizer` becomes its fingerprint, empty where it is not known.
Deck settled_deck(const Deck& deck, const MpiSession& session, std::string& tokenizer);

std::int64_t samples_of_run(const Deck& deck);  // sequences of all steps

// Lines of the start-up table; throws where data.repeat = "refuse" is not kept.
std::vector<std::string> data_lines(const Deck& deck, const TokenSplit& data);

}  // namespace trireme
