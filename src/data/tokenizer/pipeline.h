#pragma once
// The tokenizer that every file format but SentencePiece's own becomes: added tokens are cut out, the rest is
// normalized, cut into words, and each word merged. It reads no files.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "added_tokens.h"
#include "bpe.h"
#include "steps.h"
#include "trireme/data/tokenizer.h"
#include "vocabulary.h"
#include "word_cache.h"

namespace trireme {

enum class Units : std::uint8_t { bytes, characters };  // what a word is made of before the first merge

// Everything that a file says; plain data.
struct PipelineParts {
  Units units = Units::bytes;
  Vocabulary vocabulary;  // with Units::bytes the bytes of tokens, else their characters; without added tokens
  MergeTable merges{0};
  bool whole_words_first = false;  // a word that is a token is that token, whatever the merges give
  bool byte_fallback = false;      // characters without a token become <0xNN>
  bool fuse_unknown = false;
  std::optional<std::int32_t> unknown;
  std::vector<AddedToken> added, added_normalized;  // found in the text as it is, and after normalizing
  std::vector<Normalizer> normalizers;
  std::vector<Cutter> cutters;
  std::vector<std::string> pieces;  // what each id stands for in decoded text
  bool drops_first_space = false;
  std::optional<std::int32_t> end_of_document, begin_of_document;
  std::string what;         // "byte-level BPE"
  std::string files;        // "vocab.json, merges.txt"
  std::string fingerprint;  // of their contents
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineParts parts);
  ~PipelineTokenizer() override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(parts_.pieces.size()); }
  void append(std::string_view text, Spelled specials, std::vector<std::int32_t>& ids) const override;
  std::string_view piece(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return parts_.end_of_document; }
  std::optional<std::int32_t> begin_of_document() const override { return parts_.begin_of_document; }
  bool drops_first_space() const override { return parts_.drops_first_space; }
  std::string describe() const override;
  std::string fingerprint() const override { return parts_.fingerprint; }

 private:
  struct Workspace;  // what one thread needs
  using Ids = std::vector<std::int32_t>;
  struct Added {
    AddedTokens as_is, normalized;
  };
  void encode_text(std::string_view text, const Added& added, Workspace& space, Ids& ids) const;
  void encode_rest(Piece piece, const AddedTokens& added, Workspace& space, Ids& ids) const;
  void cut(std::size_t step, Piece piece, Workspace& space, Ids& ids) const;
  void encode_word(std::string_view word, Workspace& space, Ids& ids) const;
  void encode_part(std::string_view word, Workspace& space, Ids& ids) const;
  void append_units(std::string_view word, Ids& ids) const;
  void append_unknown(std::string_view character, std::size_t from, Ids& ids) const;
  bool words_are_independent() const;

  PipelineParts parts_;
  Added added_, ordinary_;                // all, and those that are not special
  std::vector<std::int32_t> id_of_byte_;  // -1: no token
  bool cuts_before_metaspace_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace trireme
