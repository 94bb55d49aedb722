#pragma once
// Sizes and boxes of row-major index spaces of rank 0..4. Pure arithmetic: no memory, no ranks.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace trireme {

struct Shape {
  int rank = 0;
  std::array<std::int64_t, 4> dim{};

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);  // NOLINT: {T, C} reads as a shape everywhere

  std::int64_t operator[](int i) const { return dim[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return dim[static_cast<std::size_t>(i)]; }
  std::int64_t count() const;    // product; 1 for rank 0
  std::int64_t columns() const;  // product of all but dimension 0: the length of one row
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // "[50304, 768]"

// An axis-aligned block of a global index space. Empty when any extent is zero.
struct Box {
  Shape offset, extent;
  std::int64_t count() const { return extent.count(); }
  bool operator==(const Box&) const = default;
};

// Part i of n items cut into `parts`, as even as whole items allow: [n*i/parts, n*(i+1)/parts).
struct Range {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
  bool operator==(const Range&) const = default;
};
Range cut(std::int64_t n, std::int64_t parts, std::int64_t i);

// The elements [first, last) of `box` counted row-major *inside the box*, as at most 2*rank-1 boxes of the global
// space, in increasing order (head row, body, tail row for a matrix).
std::vector<Box> boxes_of(const Box& box, std::int64_t first, std::int64_t last);

}  // namespace trireme
