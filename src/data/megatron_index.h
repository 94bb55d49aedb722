#pragma once
// The .idx file that Megatron's preprocessing writes beside a .bin file: element type, sequences and documents. It is
// checked against the .bin and asked where documents begin; nothing of it is kept in memory.

#include <cstdint>
#include <string>
#include <vector>

#include "input_file.h"
#include "trireme/data/element.h"

namespace trireme {

class MegatronIndex {
 public:
  // Checks the index against a .bin of bin_bytes bytes. Throws Error(Exit::data) with what was expected and found. An
  // index above 64 MiB is checked at its head, its end and in evenly spaced blocks between.
  MegatronIndex(const std::string& idx_path, const std::string& bin_path, std::int64_t bin_bytes,
                const std::string& key);
  Element element() const { return element_; }
  std::int64_t n_documents() const { return n_entries_ - 1; }
  std::int64_t n_sequences() const { return n_sequences_; }
  bool has_modes() const { return has_modes_; }  // a byte for each sequence (multimodal data), which is not looked at
  std::vector<std::int32_t> lengths(Range sequences) const;  // in tokens
  std::vector<std::int64_t> ends(Range documents) const;     // the sequence behind each of them
  // Tokens of [first, first + count) where a document begins; of documents without tokens there is no trace.
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const;

 private:
  std::int64_t entry(std::int64_t document) const;        // its first sequence
  std::int64_t first_token(std::int64_t document) const;  // of a document that has a sequence

  InputFile file_;
  Element element_;
  bool has_modes_;
  std::int64_t n_sequences_, n_entries_;  // the document index has one entry more than there are documents
};

}  // namespace trireme
