#pragma once
// The tokenizer without a file: a token per byte and one for the end of a document. It keeps bytes that are not UTF-8.

#include <array>

#include "trireme/data/token_source.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer();
  std::int64_t vocab_size() const override { return k_byte_vocab; }
  void append(std::string_view text, Spelled specials, std::vector<std::int32_t>& ids) const override;
  std::string_view piece(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return k_byte_eod; }
  std::optional<std::int32_t> begin_of_document() const override { return {}; }
  bool drops_first_space() const override { return false; }
  std::string describe() const override { return "bytes, 257 tokens"; }
  std::string fingerprint() const override { return "byte"; }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace trireme
