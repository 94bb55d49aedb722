#pragma once
// Tokens by spelling and by id. Spellings are the bytes that tokens stand for, or characters as their files have them;
// it does not know which.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

class Vocabulary {
 public:
  // Throws Error(Exit::data) where two tokens have one id, ids are negative or absurdly large; `where` names the file.
  void add(std::string token, std::int64_t id, const std::string& where);
  std::optional<std::int32_t> find(std::string_view token) const;
  std::string_view token(std::int32_t id) const;  // empty where there is none
  bool has(std::int32_t id) const;
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }  // the largest id + 1
  std::int64_t n_tokens() const { return n_tokens_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::optional<std::string>> tokens_;
  std::int64_t n_tokens_ = 0;
};

}  // namespace trireme
