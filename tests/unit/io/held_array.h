#pragma once
// An array cut into boxes that ranks hold in memory of their own, with contents that any rank can tell from the index
// alone. For the tests of checkpoints in one process and in several.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/philox.h"
#include "trireme/io/stored.h"

namespace trireme::test {

struct Owned {
  Box box;
  int rank = 0;
};

// Cuts the shape at random places into `n_boxes` boxes (fewer where it has fewer elements) of random ranks, in random
// order.
inline std::vector<Owned> random_partition(const Shape& shape, std::size_t n_boxes, int n_ranks, std::uint64_t seed) {
  const RandomKey key{seed, stream_of("random_partition"), 0};
  std::uint64_t draws = 0;
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random_word(key, draws++)) % n; };
  Box whole;
  whole.extent = shape;
  whole.offset.rank = shape.rank;
  std::vector<Owned> parts{{whole, static_cast<int>(below(n_ranks))}};
  for (int tries = 0; parts.size() < n_boxes && tries < 20 * static_cast<int>(n_boxes); ++tries) {
    Owned& victim = parts[static_cast<std::size_t>(below(static_cast<std::int64_t>(parts.size())))];
    const int d = static_cast<int>(below(shape.rank));
    if (victim.box.extent[d] < 2) continue;
    const std::int64_t first = 1 + below(victim.box.extent[d] - 1);
    Owned rest = victim;
    rest.rank = static_cast<int>(below(n_ranks));
    rest.box.offset[d] += first;
    rest.box.extent[d] -= first;
    victim.box.extent[d] = first;
    parts.push_back(rest);
  }
  for (std::size_t i = parts.size(); i > 1; --i)
    std::swap(parts[i - 1], parts[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  return parts;
}

// The bits of element i of an array: any pattern, NaNs included.
inline std::uint64_t bits_of(const std::string& path, std::int64_t i) {
  const Philox4 words = random_words({7, stream_of(path), 0}, static_cast<std::uint64_t>(i));
  return static_cast<std::uint64_t>(words.x[0]) << 32 | words.x[1];
}

class HeldArray {
 public:
  // This rank's part of the array.
  HeldArray(const std::string& path, DType dtype, const Shape& shape, const std::vector<Owned>& parts, int rank) {
    stored_.path = path;
    stored_.dtype = dtype;
    stored_.global = shape;
    for (const Owned& part : parts) {
      if (part.rank != rank) continue;
      const auto count = static_cast<std::size_t>(part.box.count());
      memory_.push_back(std::make_unique<std::vector<std::byte>>(count * size_of(dtype)));
      stored_.pieces.push_back({part.box, Tensor(memory_.back()->data(), dtype, Shape{part.box.count()}), true, {}});
    }
  }

  Stored& stored() { return stored_; }

  void fill() {
    each([](std::byte* element, std::uint64_t bits, std::size_t size) { std::memcpy(element, &bits, size); });
  }
  // Elements that are not what fill() sets.
  int n_wrong() {
    int wrong = 0;
    each([&](std::byte* element, std::uint64_t bits, std::size_t size) {
      wrong += std::memcmp(element, &bits, size) != 0 ? 1 : 0;
    });
    return wrong;
  }

 private:
  template <class Visit>
  void each(Visit visit) {
    const std::size_t size = size_of(stored_.dtype);
    for (const StoredPiece& piece : stored_.pieces) {
      for (std::int64_t i = 0; i < piece.box.count(); ++i) {
        visit(piece.data.data + static_cast<std::size_t>(i) * size, bits_of(stored_.path, global_index(piece.box, i)),
              size);
      }
    }
  }
  std::int64_t global_index(const Box& box, std::int64_t i) const {
    std::int64_t index = 0, stride = 1;
    for (int d = box.extent.rank - 1; d >= 0; --d) {
      index += (box.offset[d] + i % box.extent[d]) * stride;
      i /= box.extent[d];
      stride *= stored_.global[d];
    }
    return index;
  }

  Stored stored_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
};

// Several arrays at once, as a checkpoint has them.
class HeldArrays {
 public:
  HeldArray& add(HeldArray array) { return arrays_.emplace_back(std::move(array)); }
  void fill() {
    for (HeldArray& array : arrays_) array.fill();
  }
  int n_wrong() {
    int wrong = 0;
    for (HeldArray& array : arrays_) wrong += array.n_wrong();
    return wrong;
  }
  std::vector<Stored> stored() {
    std::vector<Stored> all;
    for (HeldArray& array : arrays_) all.push_back(array.stored());
    return all;
  }

 private:
  std::vector<HeldArray> arrays_;
};

// Arrays of every rank and dtype, cut differently for every seed.
inline HeldArrays zoo(int n_ranks, int rank, std::uint64_t seed) {
  HeldArrays arrays;
  const std::vector<std::pair<DType, Shape>> kinds{
      {DType::f32, {1}},          {DType::bf16, {257}},    {DType::f64, {31, 17}},
      {DType::f16, {64, 48}},     {DType::u16, {3, 5, 7}}, {DType::bf16, {6, 40, 33}},
      {DType::f32, {4, 3, 5, 9}}, {DType::e4m3, {100, 2}}, {DType::i64, {11, 1, 13}}};
  for (const auto& [dtype, shape] : kinds) {
    const std::string path = std::string("/zoo/") + name_of(dtype) + "." + std::to_string(shape.rank);
    ++seed;
    arrays.add({path, dtype, shape, random_partition(shape, 1 + seed % 40, n_ranks, seed), rank});
  }
  return arrays;
}

}  // namespace trireme::test
