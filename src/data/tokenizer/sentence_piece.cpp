#include "sentence_piece.h"

#include <sentencepiece_processor.h>

#include <charconv>
#include <filesystem>

#include "token_files.h"
#include "trireme/base/check.h"
#include "utf8.h"

namespace trireme {

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// The bytes of a piece inside a text.
std::string bytes_of_piece(const Processor& processor, int id) {
  const std::string piece = processor.IdToPiece(id);
  unsigned byte = 0;
  if (processor.IsByte(id) && std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16).ec == std::errc())
    return std::string(1, static_cast<char>(byte));
  std::string text;
  std::size_t done = 0;
  for (std::size_t at = piece.find(k_metaspace); at != std::string::npos; at = piece.find(k_metaspace, done)) {
    text.append(piece, done, at - done) += ' ';
    done = at + k_metaspace.size();
  }
  return text.append(piece, done);
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(const std::string& path, const std::string& model);
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(pieces_.size()); }
  void append(std::string_view text, Spelled specials, std::vector<std::int32_t>& ids) const override;
  std::string_view piece(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return id_if_set(processor_.eos_id()); }
  std::optional<std::int32_t> begin_of_document() const override { return id_if_set(processor_.bos_id()); }
  bool drops_first_space() const override { return drops_first_space_; }
  std::string describe() const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static std::optional<std::int32_t> id_if_set(int id) {
    return id >= 0 ? std::optional<std::int32_t>(id) : std::nullopt;
  }
  Processor processor_;
  std::vector<std::string> pieces_;
  bool drops_first_space_;
  std::string file_, fingerprint_;
};

SentencePiece::SentencePiece(const std::string& path, const std::string& model)
    : file_(std::filesystem::path(path).filename().string()), fingerprint_(hash_text("sentencepiece", {model})) {
  const auto status = processor_.LoadFromSerializedProto(model);
  if (!status.ok()) throw Error(Exit::data, path + " is no SentencePiece model: " + status.ToString());
  for (int id = 0; id < processor_.GetPieceSize(); ++id) pieces_.push_back(bytes_of_piece(processor_, id));
  // Whether a space is put before the first word: seen from a word that has none.
  std::vector<std::string> pieces;
  processor_.Encode("a", &pieces);
  drops_first_space_ = !pieces.empty() && pieces.front().starts_with(k_metaspace);
}

void SentencePiece::append(std::string_view text, Spelled /*specials*/, std::vector<std::int32_t>& ids) const {
  std::string storage;
  const std::string_view repaired = well_formed(text, storage);
  std::vector<int> made;
  const auto status = processor_.Encode({repaired.data(), repaired.size()}, &made);
  if (!status.ok()) throw Error(Exit::data, file_ + ": encoding failed: " + status.ToString());
  ids.insert(ids.end(), made.begin(), made.end());
}

std::string_view SentencePiece::piece(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return pieces_[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> SentencePiece::id_of(std::string_view token) const {
  const int id = processor_.PieceToId({token.data(), token.size()});
  if (processor_.IdToPiece(id) != token) return {};
  return id;
}

std::string SentencePiece::describe() const {
  return "SentencePiece, " + std::to_string(vocab_size()) + " tokens (" + file_ + ")";
}

}  // namespace

std::unique_ptr<Tokenizer> open_sentence_piece(const std::string& path) {
  return std::make_unique<SentencePiece>(path, file_text(path));
}

}  // namespace trireme
