#pragma once
// Writes the pair of files that Megatron's preprocessing writes: PREFIX.bin, tokens back to back, and PREFIX.idx, where
// each sequence and each document begins. It knows no text and no tokenizer.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/element.h"

namespace trireme {

// Files appear under their names only when finish() has written all of them: before, they are PREFIX.bin.part and
// PREFIX.idx.part. What is there is replaced. Throws Error(Exit::data) where a file cannot be written.
class TokenWriter {
 public:
  TokenWriter(const std::string& prefix, Element element);
  ~TokenWriter();  // removes what was not finished
  TokenWriter(const TokenWriter&) = delete;

  void add_document(std::span<const std::int32_t> tokens);  // as one sequence; ids must fit the element
  void add_files(const std::string& prefix);                // all documents of another pair with the same element
  void finish();

  std::int64_t n_tokens() const { return n_tokens_; }
  std::int64_t n_documents() const { return static_cast<std::int64_t>(first_sequence_.size()) - 1; }

 private:
  void write(std::FILE* file, const std::string& path, std::span<const std::byte> bytes);
  void copy_tokens(const std::string& bin, std::int64_t bytes);
  void write_index(std::FILE* file);

  std::string prefix_;
  Element element_;
  std::FILE* bin_ = nullptr;
  std::vector<std::byte> encoded_;
  std::vector<std::int32_t> lengths_;         // of sequences
  std::vector<std::int64_t> first_sequence_;  // of documents; one more than there are
  std::int64_t n_tokens_ = 0;
};

Element read_element(const std::string& prefix);  // of a pair of files

}  // namespace trireme
