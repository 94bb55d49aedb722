#pragma once
// Opening and reading sources in one line, and the message of the Error that a call throws.

#include <string>
#include <vector>

#include "files.h"
#include "trireme/base/check.h"
#include "trireme/data/token_source.h"

namespace trireme {

using Ids = std::vector<std::int32_t>;

inline DataDeck deck_of(const std::string& source, std::vector<std::string> paths) {
  DataDeck data;
  data.source = source;
  data.paths = std::move(paths);
  data.validation_fraction = 0;
  return data;
}

// For sequences of 4 tokens.
inline TokenSplit open_all(const DataDeck& data, std::int64_t vocab) {
  return open_tokens(data, vocab, 4, 7);
}

inline TokenSplit open_all(const DataDeck& data) {
  return open_all(data, 50257);
}

inline Ids read_ids(const TokenSource& source, std::int64_t first, std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count), -9);
  source.read(first, ids);
  return ids;
}

inline Ids all_ids(const TokenSource& source) {
  return read_ids(source, 0, source.n_tokens());
}

// The message of the Error that `act` throws, with its exit code in front.
template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code)) + ": " + error.what();
  }
  return "no error";
}

}  // namespace trireme
