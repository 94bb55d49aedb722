#pragma once
// What a run does with the data section before the first step: ask the tokenizer, count how often it will pass over
// each corpus, open the files on the ranks that read them. It reads no batches.

#include <string>
#include <vector>

#include "trireme/comm/mpi.h"
#include "trireme/comm/process_grid.h"
#include "trireme/data/sampler.h"
#include "trireme/deck/deck.h"

namespace trireme {

// The deck with data.eod from data.tokenizer; `tokenizer` becomes its fingerprint, empty where it is not known.
Deck settled_deck(const Deck& deck, const MpiSession& session, std::string& tokenizer);

// True on the first and the last pipeline stage, which hold embedding and loss; where attention or positions follow the
// documents, on every stage.
bool reads_tokens(const Deck& deck, const GridPoint& here);

// open_tokens() on the ranks that read tokens; the others open no file and know sizes only. Collective; `deck` is the
// settled one.
TokenSplit open_data(const Deck& deck, const GridPoint& here, const MpiSession& session);

std::int64_t samples_of_run(const Deck& deck);  // sequences of all steps

// Lines of the start-up table; throws where data.repeat = "refuse" is not kept.
std::vector<std::string> data_lines(const Deck& deck, const TokenSplit& data);

}  // namespace trireme
