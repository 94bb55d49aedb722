#pragma once
// Where tokens come from: text files, raw or Megatron .bin files, or a mock. A source is one long array of tokens that
// any rank may read at any place; it does not shuffle and does not know batches.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/deck/deck.h"

namespace trireme {

inline constexpr std::int64_t k_byte_vocab = 257;  // 256 bytes and the end-of-document token
inline constexpr std::int32_t k_byte_eod = 256;

// A part of a source from which samples are drawn by weight.
struct Corpus {
  std::string name;
  Range tokens;
  double weight;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t n_tokens() const = 0;
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;  // throws Error(Exit::data)
  // Ascending places i of [first, first + count) where a document begins: at the start of every file, where the .idx
  // says so, and without an .idx behind each end-of-document token (where data.eod names one).
  virtual std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const = 0;
  virtual std::vector<Corpus> corpora() const;  // one after the other, all tokens; one corpus unless there are weights
  virtual std::string describe() const = 0;     // "2 text files, 1.1 M tokens"
  virtual std::string fingerprint() const = 0;  // of the contents: a resumed run must see the same
};

struct TokenSplit {
  std::unique_ptr<TokenSource> training, validation, test;  // validation and test may be null
};

struct SettledData {
  DataDeck data;
  std::string tokenizer;  // fingerprint of the tokenizer, if it is known
};

// The deck's section with what data.tokenizer says: data.eod where that is -1. Throws Error(Exit::usage) for a
// vocabulary that is too small, Error(Exit::data) for token files of another tokenizer (by their PREFIX.json).
SettledData settle_data(const DataDeck& data, std::int64_t vocab);

// Opens data.paths as the deck says, with an end-of-document token after each text file. Throws Error(Exit::data) for
// files that are missing, empty, truncated, not text (NUL bytes in data.source = "text"), or hold ids >= vocab (found
// when first read). Without validation_paths and test_paths the tokens are cut: training, then validation_fraction of
// them for validation, then test_fraction for the test; a cut moves to the nearest beginning of a document, where there
// is one near. With data.weights every corpus is cut. A part shorter than sequence + 1 tokens is left out if the
// fraction is the deck's default, else an Error. data.eod >= 0 replaces k_byte_eod at the end of text files.
TokenSplit open_tokens(const DataDeck& data, std::int64_t vocab, std::int64_t sequence, std::uint64_t seed);

}  // namespace trireme
