#pragma once
// Whether a checkpoint fits the run that wants to go on from it, as far as its attributes tell: the model and the data.
// It reads no arrays.

#include <optional>
#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/deck/deck.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

struct CheckpointHead {
  Attributes attributes;
  std::optional<DType> masters;  // dtype of /master, when there is one
};

// Read by rank 0 alone, known to all. Throws Error on every rank when the file is no good checkpoint.
CheckpointHead read_head(const MpiSession& session, const std::string& path);

// Throw SharedError(Exit::data) with what differs; differences that do no harm are warned of.
void check_model(const Deck& deck, const Attributes& attributes, const std::string& path);
void check_data(const Deck& deck, const std::string& fingerprint, const std::string& tokenizer,
                const Attributes& attributes, const std::string& path);

}  // namespace trireme
