#pragma once
// Sources made of others: a part of one, and several after each other. They read no files themselves.

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/data/token_source.h"

namespace trireme {

// The tokens [part.first, part.last) of another source. Training and validation each own their source: two open files
// cost less than shared ownership.
class PartSource final : public TokenSource {
 public:
  PartSource(std::unique_ptr<TokenSource> whole, Range part) : whole_(std::move(whole)), part_(part) {}
  std::int64_t n_tokens() const override { return part_.count(); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override;
  std::string describe() const override { return whole_->describe() + ", of these " + range(); }
  std::string fingerprint() const override { return whole_->fingerprint() + ", " + range(); }

 private:
  std::string range() const;
  std::unique_ptr<TokenSource> whole_;
  Range part_;
};

// Corpora with weights. Samples never reach over from one to the next: the sampler asks for corpora().
class BlendSource final : public TokenSource {
 public:
  struct Part {
    std::unique_ptr<TokenSource> source;
    std::string name;
    double weight;
  };
  explicit BlendSource(std::vector<Part> parts);
  std::int64_t n_tokens() const override { return corpora_.back().tokens.last; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override;
  std::vector<Corpus> corpora() const override { return corpora_; }
  std::string describe() const override;
  std::string fingerprint() const override;

 private:
  std::size_t part_of(std::int64_t token) const;
  std::vector<Part> parts_;
  std::vector<Corpus> corpora_;
};

}  // namespace trireme
