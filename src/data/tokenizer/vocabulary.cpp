#include "vocabulary.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_most = 1 << 24;  // no vocabulary comes near; a damaged id must not take all memory

}  // namespace

void Vocabulary::add(std::string token, std::int64_t id, const std::string& where) {
  if (id < 0 || id >= k_most)
    throw Error(Exit::data, where + ": the token \"" + token + "\" has the id " + std::to_string(id) +
                                ", expected 0 to " + std::to_string(k_most - 1));
  if (id >= size()) tokens_.resize(static_cast<std::size_t>(id) + 1);
  auto& place = tokens_[static_cast<std::size_t>(id)];
  if (place)
    throw Error(Exit::data,
                where + ": the id " + std::to_string(id) + " belongs to \"" + *place + "\" and to \"" + token + "\"");
  ids_.emplace(token, static_cast<std::int32_t>(id));
  place = std::move(token);
  ++n_tokens_;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return {};
  return found->second;
}

bool Vocabulary::has(std::int32_t id) const {
  return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].has_value();
}

std::string_view Vocabulary::token(std::int32_t id) const {
  if (!has(id)) return {};
  return *tokens_[static_cast<std::size_t>(id)];
}

}  // namespace trireme
