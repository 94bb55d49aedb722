#include "byte_tokenizer.h"

namespace trireme {

namespace {

constexpr std::string_view k_end = "<|endoftext|>";  // shown, never read: text of that spelling stays text

}  // namespace

ByteTokenizer::ByteTokenizer() {
  for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
}

void ByteTokenizer::append(std::string_view text, Spelled /*specials*/, std::vector<std::int32_t>& ids) const {
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
}

std::string_view ByteTokenizer::piece(std::int32_t id) const {
  if (id == k_byte_eod) return k_end;
  if (id < 0 || id > k_byte_eod) return {};
  return {bytes_.data() + id, 1};
}

std::optional<std::int32_t> ByteTokenizer::id_of(std::string_view token) const {
  if (token == k_end) return k_byte_eod;
  if (token.size() == 1) return static_cast<unsigned char>(token[0]);
  return {};
}

}  // namespace trireme
