#pragma once
// Where tokens come from: text files (one token per byte), raw or Megatron .bin files, or a mock. A source is one long
// array of tokens that any rank may read at any place; it does not shuffle and does not know batches.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"

namespace trireme {

inline constexpr std::int64_t k_byte_vocab = 257;  // 256 bytes and the end-of-document token
inline constexpr std::int32_t k_byte_eod = 256;

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t n_tokens() const = 0;
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;  // throws Error(Exit::data)
  // Ascending places i of [first, first + count) where a document begins: at the start of every file, where the .idx
  // says so, and without an .idx behind each end-of-document token (where data.eod names one).
  virtual std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const = 0;
  virtual std::string describe() const = 0;     // "2 text files, 1.1 M tokens"
  virtual std::string fingerprint() const = 0;  // of the contents: a resumed run must see the same
};

struct TokenSplit {
  std::unique_ptr<TokenSource> training, validation;  // validation may be null
};

// Opens data.paths as the deck says, with an end-of-document token after each text file. Throws Error(Exit::data) for
// files that are missing, empty, truncated, not text (NUL bytes in data.source = "text"), or hold ids >= vocab (found
// when first read). Without validation_paths the last validation_fraction of the tokens is validation and the rest
// training. When either part would be shorter than sequence + 1 tokens, validation is null if the fraction is the
// deck's default, else an Error. data.eod >= 0 replaces k_byte_eod at the end of text files.
TokenSplit open_tokens(const DataDeck& data, std::int64_t vocab, std::int64_t sequence, std::uint64_t seed);

}  // namespace trireme
