#include "added_tokens.h"

#include "utf8.h"

namespace trireme {

namespace {

bool is_space(std::uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::int64_t start_of_space_before(std::string_view text, std::int64_t from, std::int64_t i) {
  while (i > from) {
    std::int64_t start = i - 1;
    while (start > from && (static_cast<unsigned char>(text[static_cast<std::size_t>(start)]) & 0xC0) == 0x80) --start;
    const auto character = text.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(i - start));
    if (!is_space(code_point(character))) break;
    i = start;
  }
  return i;
}

std::int64_t end_of_space_behind(std::string_view text, std::int64_t i) {
  while (i < static_cast<std::int64_t>(text.size())) {
    const std::string_view rest = text.substr(static_cast<std::size_t>(i));
    const std::size_t length = utf8_step(rest).length;
    if (!is_space(code_point(rest.substr(0, length)))) break;
    i += static_cast<std::int64_t>(length);
  }
  return i;
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  if (token.text.empty()) return;
  std::uint32_t node = 0;
  for (const char c : token.text) {
    const std::uint64_t step = static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(c);
    const auto [found, fresh] = next_.try_emplace(step, static_cast<std::uint32_t>(ends_.size()));
    if (fresh) ends_.emplace_back();
    node = found->second;
  }
  starts_[static_cast<unsigned char>(token.text[0])] = true;
  ends_[node] = tokens_.size();
  tokens_.push_back(std::move(token));
}

std::optional<std::int32_t> AddedTokens::id_of(std::string_view token) const {
  const auto longest = token.empty() ? std::nullopt : longest_at(token, 0);
  if (!longest || tokens_[*longest].text != token) return {};
  return tokens_[*longest].id;
}

std::optional<std::size_t> AddedTokens::longest_at(std::string_view text, std::size_t i) const {
  std::optional<std::size_t> longest;
  std::uint32_t node = 0;
  for (; i < text.size(); ++i) {
    const auto found = next_.find(static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(text[i]));
    if (found == next_.end()) break;
    node = found->second;
    if (ends_[node]) longest = ends_[node];
  }
  return longest;
}

AddedTokens::Found AddedTokens::widened(std::string_view text, std::int64_t from, Range place,
                                        const AddedToken& token) const {
  if (token.takes_space_before) place.first = start_of_space_before(text, from, place.first);
  if (token.takes_space_behind) place.last = end_of_space_behind(text, place.last);
  return {place, token.id};
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::int64_t from) const {
  if (tokens_.empty()) return {};
  for (auto i = static_cast<std::size_t>(from); i < text.size(); ++i) {
    if (!starts_[static_cast<unsigned char>(text[i])]) continue;
    const auto longest = longest_at(text, i);
    if (!longest) continue;
    const AddedToken& token = tokens_[*longest];
    const auto first = static_cast<std::int64_t>(i);
    return widened(text, from, {first, first + static_cast<std::int64_t>(token.text.size())}, token);
  }
  return {};
}

}  // namespace trireme
