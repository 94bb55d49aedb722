#pragma once
// Byte-pair merges: a sequence of token ids and a table of which neighbours become which token, in which order. It
// knows nothing of text. Short words are scanned, long ones use a heap: O(n log n) for a word of n symbols.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct Merge {
  std::int32_t rank;    // lower ranks are merged first, equal ones from left to right; -1: these two do not merge
  std::int32_t result;  // id of the token that they become
};

class MergeTable {
 public:
  explicit MergeTable(std::int64_t n_expected);
  void insert(std::int32_t left, std::int32_t right, Merge merge);  // replaces what was there
  Merge find(std::int32_t left, std::int32_t right) const;
  std::int64_t size() const { return n_; }

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t pair) const;
  void grow();

  std::vector<Slot> slots_;  // open addressing, a power of two
  std::int64_t n_ = 0;
};

// Room for the heap; kept between calls.
struct MergeSpace {
  struct Symbol {
    std::int32_t id, previous, next;
  };
  struct Candidate {
    std::int32_t rank, place, result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Merges ids[from ...] as far as the table goes, in place.
void merge(const MergeTable& table, std::vector<std::int32_t>& ids, std::size_t from, MergeSpace& space);

}  // namespace trireme
