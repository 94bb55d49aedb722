#pragma once
// What a rank that reads no tokens must know of the data: how many there are and where corpora lie, from which follows
// which samples exist. It opens no files and holds no tokens.

#include <string>

#include "trireme/data/token_source.h"

namespace trireme {

// For another rank, as text. Takes the fingerprints, so it may throw Error(Exit::data).
std::string outline_of(const TokenSplit& split);
// Sources of the same sizes, corpora and fingerprints. Asking them for tokens or documents is a bug of the caller.
TokenSplit split_from(const std::string& outline);

}  // namespace trireme
