#include "trireme/data/tokenizer.h"

#include "utf8.h"

namespace trireme {

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  append(text, Spelled::token, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  if (drops_first_space() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string StreamDecoder::push(std::int32_t id) {
  std::string_view piece = tokenizer_.piece(id);
  if (first_ && tokenizer_.drops_first_space() && piece.starts_with(' ')) piece.remove_prefix(1);
  first_ = first_ && tokenizer_.piece(id).empty();
  withheld_ += piece;
  std::string text;
  std::size_t done = 0;
  while (done < withheld_.size()) {
    const Utf8Step step = utf8_step(std::string_view(withheld_).substr(done));
    if (step.what == Utf8::cut) break;
    text += step.what == Utf8::character ? std::string_view(withheld_).substr(done, step.length) : k_replacement;
    done += step.length;
  }
  withheld_.erase(0, done);
  return text;
}

std::string StreamDecoder::finish() {
  const std::string text(withheld_.empty() ? std::string_view() : k_replacement);
  withheld_.clear();
  first_ = true;
  return text;
}

}  // namespace trireme
