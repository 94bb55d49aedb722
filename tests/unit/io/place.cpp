// Where elements lie: compared with an array whose every element is placed one by one.

#include "../../../src/io/place.h"

#include <algorithm>
#include <map>

#include "catch.h"
#include "held_array.h"
#include "trireme/base/check.h"

using namespace trireme;
using namespace trireme::test;

namespace {

// Element by element, from the definition in the header.
std::pair<std::int64_t, std::int64_t> place_of(const ArrayPlace& place, const Shape& index) {
  for (const Slab& slab : place.slabs) {
    if (index[0] < slab.first || index[0] >= slab.first + slab.count) continue;
    std::int64_t block = 0, inner = 0, block_count = 1;
    for (int d = 0; d < place.shape.rank; ++d) {
      const std::int64_t size = d == 0 ? slab.count : place.shape[d];
      const std::int64_t length = slab.chunk.rank > 0 ? slab.chunk[d] : size;
      const std::int64_t at = index[d] - (d == 0 ? slab.first : 0);
      block = block * ((size + length - 1) / length) + at / length;
      inner = inner * length + at % length;
      block_count *= length;
    }
    return {slab.file, slab.address + (block * block_count + inner) * static_cast<std::int64_t>(size_of(place.dtype))};
  }
  return {-1, -1};
}

ArrayPlace random_place(const Shape& shape, std::uint64_t seed) {
  std::uint64_t draws = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random_word({seed, stream_of("place"), 0}, draws++)) % n;
  };
  ArrayPlace place{DType::bf16, shape, {}};
  const std::int64_t n_slabs = 1 + below(std::min<std::int64_t>(3, shape[0]));
  for (std::int64_t i = 0; i < n_slabs; ++i) {
    const Range rows = cut(shape[0], n_slabs, i);
    Slab slab{rows.first, rows.count(), i, 1000 * (i + 1), {}};
    if (below(2) == 0) {
      slab.chunk = shape;
      slab.chunk[0] = rows.count();
      for (int d = 0; d < shape.rank; ++d) slab.chunk[d] = 1 + below(slab.chunk[d]);
    }
    place.slabs.push_back(slab);
  }
  return place;
}

}  // namespace

TEST_CASE("every element of a part of a box is found where it lies, once") {
  const std::vector<Shape> shapes{{7}, {5, 6}, {4, 5, 6}, {3, 2, 4, 5}, {1, 9}, {9, 1}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Shape shape = shapes[seed % shapes.size()];
    const ArrayPlace place = random_place(shape, seed);
    for (const Owned& owned : random_partition(shape, 4, 1, seed)) {
      const std::int64_t n = owned.box.count();
      for (const Range& part : {Range{0, n}, Range{n / 3, n - n / 4}}) {
        const Lines lines = lines_of(place, owned.box, part);

        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> found;  // byte of memory: file, offset
        for (const Segment& s : lines.segments) {
          for (std::int64_t b = 0; b < s.bytes; b += 2) found[s.from + b] = {s.file, s.offset + b};
        }
        REQUIRE(std::ssize(found) == part.count());
        CHECK(lines.count == part.count());
        for (std::int64_t i = part.first; i < part.last; ++i) {
          Shape index = owned.box.offset;
          std::int64_t rest = i;
          for (int d = shape.rank - 1; d >= 0; --d) {
            index[d] += rest % owned.box.extent[d];
            rest /= owned.box.extent[d];
          }
          CHECK(found.at(2 * (i - part.first)) == place_of(place, index));
        }
      }
    }
  }
}

TEST_CASE("stretches name the element that lies in memory") {
  const Shape shape{6, 8};
  const Box box{{1, 2}, {4, 5}};
  const Lines lines = lines_of(random_place(shape, 3), box, {3, 17});

  std::int64_t next = 0;
  for (const Stretch& s : lines.stretches) {
    for (std::int64_t i = 0; i < s.count; ++i, ++next) {
      CHECK(s.from + i == next);
      const std::int64_t inside = 3 + next;
      CHECK(s.at + i == (1 + inside / 5) * 8 + 2 + inside % 5);
    }
  }
  CHECK(next == 14);
}

TEST_CASE("blocks that a rank holds whole are contiguous") {
  ArrayPlace place{DType::f32, {3, 64, 32}, {{0, 3, 0, 4096, {1, 64, 8}}}};

  const Lines lines = lines_of(place, {{1, 0, 16}, {1, 64, 8}}, {100, 500});

  REQUIRE(lines.segments.size() == 1);
  CHECK(lines.segments[0].offset == 4096 + 4 * ((4 + 2) * 64 * 8 + 100));
  CHECK(lines.segments[0].bytes == 1600);
}

TEST_CASE("rows that the array does not have are left out and their memory skipped") {
  ArrayPlace place{DType::f32, {10, 4}, {{0, 10, 0, 0, {}}}};

  const Lines lines = lines_of(place, {{8, 0}, {5, 4}}, {0, 20});

  CHECK(lines.count == 8);
  REQUIRE(lines.segments.size() == 1);
  CHECK(lines.segments[0].offset == 128);
  CHECK(lines.segments[0].from == 0);
}
