#pragma once
// The ids of words met before, by their bytes. Bounded: when it is full it starts again from nothing. One per thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class WordCache {
 public:
  static constexpr std::size_t k_longest = 64;  // bytes of a word that is kept
  WordCache();
  std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  void insert(std::string_view word, std::span<const std::int32_t> ids);  // a word that is not there

 private:
  struct Slot {
    std::uint64_t hash;        // 0: free
    std::uint32_t bytes, ids;  // where they begin in their stores
    std::uint16_t n_bytes, n_ids;
  };
  std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<std::int32_t> ids_;
  std::size_t n_ = 0;
};

}  // namespace trireme
