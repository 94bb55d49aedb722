#pragma once
// Text that a tokenizer has turned into tokens, all of them in memory. For small corpora: large ones are tokenized
// once, by tools/preprocess.

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/data/token_source.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

class MemorySource final : public TokenSource {
 public:
  struct Contents {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> starts;  // of documents, ascending
    std::string description, fingerprint;
  };
  explicit MemorySource(Contents contents) : contents_(std::move(contents)) {}
  std::unique_ptr<TokenSource> part(Range tokens) const;  // a copy of some of them

  std::int64_t n_tokens() const override { return static_cast<std::int64_t>(contents_.ids.size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override;
  std::string describe() const override { return contents_.description; }
  std::string fingerprint() const override { return contents_.fingerprint; }

 private:
  Contents contents_;
};

// Each file is a document, with `eod` behind it unless that is -1. Throws Error(Exit::data) for text above 4 GiB.
std::unique_ptr<MemorySource> tokenize_text(const std::vector<std::string>& paths, const std::string& key,
                                            const Tokenizer& tokenizer, std::int64_t eod);

}  // namespace trireme
