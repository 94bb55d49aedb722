#pragma once
// Where the elements of an array lie in the files of a checkpoint: HDF5 lays an array out once (contiguous, or in equal
// blocks one behind the other), and from then on an element's place is arithmetic. No file, no memory, no ranks.

#include <cstdint>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

// Rows [first, first + count) of dimension 0, in one file, from `address` on. Blocks of `chunk` (rank 0: one block)
// follow each other in row-major order, those at the edges padded to full size.
struct Slab {
  std::int64_t first = 0, count = 0, file = 0, address = 0;
  Shape chunk;
};

struct ArrayPlace {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<Slab> slabs;  // in order, together all rows
};

// Bytes at `offset` of a file that are those from byte `from` on of some memory.
struct Segment {
  std::int64_t file = 0, offset = 0, from = 0, bytes = 0;
};

// `count` elements from linear index `at` of the array, in memory from element `from` on.
struct Stretch {
  std::int64_t at = 0, from = 0, count = 0;
};

struct Lines {
  std::vector<Segment> segments;   // in the order of the files
  std::vector<Stretch> stretches;  // in the order of the memory
  std::int64_t count = 0;          // elements found; less than asked for when the box reaches beyond the last row
};

// The elements [part) of `box`, counted row-major inside it, that memory holds one behind the other. Rows of dimension
// 0 beyond the array are left out.
Lines lines_of(const ArrayPlace& place, const Box& box, const Range& part);

}  // namespace trireme
