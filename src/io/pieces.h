#pragma once
// How one rank's pieces of an array meet the file: bounded rounds of parts, and the runs of elements that are
// contiguous both in the array and in a piece. Pure arithmetic: no file, no memory, no ranks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/io/stored.h"

namespace trireme {

// The elements [range) of a piece, counted row-major inside its box.
struct Part {
  std::size_t piece = 0;
  Range range;
};

// What one rank moves in one collective call. `boxes` cover the parts, merged where that is possible.
struct Round {
  std::vector<Part> parts;
  std::vector<Box> boxes;
  std::int64_t count = 0;  // elements
};

// Our bug: a piece that leaves the array or has other memory than its box.
void require_piece(const Stored& array, const StoredPiece& piece);

// Cuts the pieces into rounds of at most `limit` elements. Empty pieces are left out. Our bug: a piece that leaves the
// array, has other memory than its box, or overlaps another.
std::vector<Round> plan_rounds(const Stored& array, std::int64_t limit);

// `count` elements from linear index `at` of the array. They lie at element `from` of their part and at element `place`
// of the round's buffer, which holds the round's elements in file order (row-major in the array).
struct Run {
  std::int64_t at = 0, count = 0, from = 0, place = 0;
};

// The runs of a round, part by part, in increasing order within each: those of part i are [first[i], first[i + 1]).
struct Runs {
  std::vector<Run> all;
  std::vector<std::size_t> first;
  std::span<const Run> of(std::size_t part) const { return {all.data() + first[part], first[part + 1] - first[part]}; }
};
Runs runs_of(const Stored& array, const Round& round);

// Unites boxes that together are a box, as long as there are any; the result is in row-major order of the first
// elements.
std::vector<Box> merged(std::vector<Box> boxes);

}  // namespace trireme
