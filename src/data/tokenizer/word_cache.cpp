#include "word_cache.h"

#include <cstring>

namespace trireme {

namespace {

constexpr std::size_t k_first_slots = 1 << 12, k_most_words = 1 << 20;  // 70 MB in all when the words are ordinary

std::uint64_t mixed(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15ULL;
  return x ^ x >> 32;
}

std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = word.size();
  std::size_t i = 0;
  for (; i + 8 <= word.size(); i += 8) {
    std::uint64_t part;
    std::memcpy(&part, word.data() + i, 8);
    hash = mixed(hash ^ part);
  }
  std::uint64_t part = 0;
  std::memcpy(&part, word.data() + i, word.size() - i);
  return mixed(mixed(hash ^ part)) | 1;
}

}  // namespace

WordCache::WordCache() : slots_(k_first_slots) {}

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (hash >> 1) & mask;
  for (; slots_[i].hash != 0; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.hash != hash || slot.n_bytes != word.size()) continue;
    if (std::memcmp(bytes_.data() + slot.bytes, word.data(), word.size()) == 0) break;
  }
  return i;
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  const Slot& slot = slots_[slot_of(word, hash_of(word))];
  if (slot.hash == 0) return {};
  return std::span(ids_).subspan(slot.ids, slot.n_ids);
}

void WordCache::insert(std::string_view word, std::span<const std::int32_t> ids) {
  if (n_ == k_most_words) *this = WordCache();
  const std::uint64_t hash = hash_of(word);
  slots_[slot_of(word, hash)] = {hash, static_cast<std::uint32_t>(bytes_.size()),
                                 static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(word.size()),
                                 static_cast<std::uint16_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  if (2 * ++n_ > slots_.size()) grow();
}

void WordCache::grow() {
  std::vector<Slot> old(2 * slots_.size());
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.hash != 0) slots_[slot_of({bytes_.data() + slot.bytes, slot.n_bytes}, slot.hash)] = slot;
  }
}

}  // namespace trireme
