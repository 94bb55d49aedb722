#include "bpe.h"

#include <algorithm>
#include <array>
#include <bit>

namespace trireme {

namespace {

constexpr std::uint64_t k_empty = ~std::uint64_t{0};
constexpr std::size_t k_scanned = 48;  // symbols; where scanning and heap take the same time

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

using Ids = std::span<std::int32_t>;

// Finds the lowest rank, merges there, looks at the two new neighbours; returns how many symbols are left.
std::size_t merge_scanning(const MergeTable& table, Ids ids) {
  std::array<Merge, k_scanned> merges;  // merges[i] of ids[i], ids[i + 1]
  std::size_t n = ids.size();
  for (std::size_t i = 0; i + 1 < n; ++i) merges[i] = table.find(ids[i], ids[i + 1]);
  while (n > 1) {
    std::size_t best = n;
    std::uint32_t lowest = ~std::uint32_t{0};  // -1 is the highest
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const auto rank = static_cast<std::uint32_t>(merges[i].rank);
      if (rank < lowest) {
        lowest = rank;
        best = i;
      }
    }
    if (best == n) break;
    ids[best] = merges[best].result;
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(best) + 2, ids.begin() + static_cast<std::ptrdiff_t>(n),
              ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + n - 1, merges.begin() + best);
    --n;
    if (best > 0) merges[best - 1] = table.find(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = table.find(ids[best], ids[best + 1]);
  }
  return n;
}

class HeapMerge {
 public:
  HeapMerge(const MergeTable& table, MergeSpace& space) : table_(table), symbols_(space.symbols), heap_(space.heap) {}
  std::size_t run(Ids ids) {
    start(ids);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const MergeSpace::Candidate candidate = heap_.back();
      heap_.pop_back();
      apply(candidate);
    }
    std::size_t n = 0;
    for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
      ids[n++] = symbols_[static_cast<std::size_t>(i)].id;
    return n;
  }

 private:
  static bool later(const MergeSpace::Candidate& a, const MergeSpace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  }
  MergeSpace::Symbol& at(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }
  void start(Ids ids);
  void apply(const MergeSpace::Candidate& candidate);
  void consider(std::int32_t place);

  const MergeTable& table_;
  std::vector<MergeSpace::Symbol>& symbols_;
  std::vector<MergeSpace::Candidate>& heap_;
};

void HeapMerge::start(Ids ids) {
  symbols_.clear();
  heap_.clear();
  const auto n = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < n; ++i)
    symbols_.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  for (std::int32_t i = 0; i + 1 < n; ++i) {
    const Merge found = table_.find(at(i).id, at(i + 1).id);
    if (found.rank >= 0) heap_.push_back({found.rank, i, found.result});
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
}

void HeapMerge::consider(std::int32_t place) {
  if (place < 0 || at(place).next < 0) return;
  const Merge found = table_.find(at(place).id, at(at(place).next).id);
  if (found.rank < 0) return;
  heap_.push_back({found.rank, place, found.result});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

// A candidate may be out of date: then its two symbols are gone or others.
void HeapMerge::apply(const MergeSpace::Candidate& candidate) {
  MergeSpace::Symbol& left = at(candidate.place);
  if (left.id < 0 || left.next < 0) return;
  MergeSpace::Symbol& right = at(left.next);
  const Merge now = table_.find(left.id, right.id);
  if (now.rank != candidate.rank || now.result != candidate.result) return;
  left.id = candidate.result;
  left.next = right.next;
  if (right.next >= 0) at(right.next).previous = candidate.place;
  right.id = -1;
  consider(left.previous);
  consider(candidate.place);
}

}  // namespace

MergeTable::MergeTable(std::int64_t n_expected)
    : slots_(std::bit_ceil(static_cast<std::size_t>(2 * n_expected + 16)), Slot{k_empty, {-1, -1}}) {}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t hash = pair * 0x9e3779b97f4a7c15ULL;
  std::size_t i = (hash ^ hash >> 32) & mask;
  while (slots_[i].pair != pair && slots_[i].pair != k_empty) i = (i + 1) & mask;
  return i;
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::size_t i = slot_of(pair_of(left, right));
  const bool fresh = slots_[i].pair == k_empty;
  slots_[i] = {pair_of(left, right), merge};
  n_ += fresh ? 1 : 0;
  if (2 * static_cast<std::size_t>(n_) > slots_.size()) grow();
}

void MergeTable::grow() {
  std::vector<Slot> old(2 * slots_.size(), Slot{k_empty, {-1, -1}});
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.pair != k_empty) slots_[slot_of(slot.pair)] = slot;
  }
}

Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

void merge(const MergeTable& table, std::vector<std::int32_t>& ids, std::size_t from, MergeSpace& space) {
  const Ids word = Ids(ids).subspan(from);
  if (word.size() < 2) return;
  const std::size_t n = word.size() <= k_scanned ? merge_scanning(table, word) : HeapMerge(table, space).run(word);
  ids.resize(from + n);
}

}  // namespace trireme
