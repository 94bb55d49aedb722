#pragma once
// Tokens that are cut out of the text before anything else looks at it: the longest that begins at a place wins. It
// does not know what the rest of the text becomes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trireme/base/shape.h"

namespace trireme {

struct AddedToken {
  std::string text;
  std::int32_t id;
  bool takes_space_before = false, takes_space_behind = false;  // "lstrip", "rstrip"
  bool special = true;
};

class AddedTokens {
 public:
  AddedTokens() { starts_.fill(false); }
  void add(AddedToken token);
  bool empty() const { return tokens_.empty(); }
  std::optional<std::int32_t> id_of(std::string_view token) const;
  struct Found {
    Range place;  // with the white space that the token takes
    std::int32_t id;
  };
  // The first token at or behind `from`.
  std::optional<Found> find(std::string_view text, std::int64_t from) const;

 private:
  std::optional<std::size_t> longest_at(std::string_view text, std::size_t i) const;
  Found widened(std::string_view text, std::int64_t from, Range place, const AddedToken& token) const;

  std::vector<AddedToken> tokens_;
  // A tree of their bytes: (node << 8 | byte) -> node; node n ends token ends_[n].
  std::unordered_map<std::uint64_t, std::uint32_t> next_;
  std::vector<std::optional<std::size_t>> ends_{std::nullopt};
  std::array<bool, 256> starts_;
};

}  // namespace trireme
