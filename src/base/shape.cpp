#include "trireme/base/shape.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  require(sizes.size() <= dim.size(), "a shape has at most four dimensions");
  for (const std::int64_t size : sizes) dim[static_cast<std::size_t>(rank++)] = size;
}

std::int64_t Shape::count() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= (*this)[i];
  return n;
}

std::int64_t Shape::columns() const {
  std::int64_t n = 1;
  for (int i = 1; i < rank; ++i) n *= (*this)[i];
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Range cut(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return {n * i / parts, n * (i + 1) / parts};
}

namespace {

// Appends the elements [first, last) of dimensions `level`.. of the box; outer offsets are already fixed in `prefix`.
void append(std::vector<Box>& boxes, const Box& box, Box prefix, int level, std::int64_t first, std::int64_t last) {
  if (first >= last) return;
  std::int64_t inner = 1;
  for (int i = level + 1; i < box.extent.rank; ++i) inner *= box.extent[i];
  const std::int64_t head = first / inner, tail = last / inner;
  const bool aligned = first % inner == 0 && last % inner == 0;
  // Rows of this level that the range only touches are cut at the next one.
  const auto inside_row = [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    prefix.offset[level] = box.offset[level] + row;
    prefix.extent[level] = 1;
    append(boxes, box, prefix, level + 1, from, to);
  };
  if (!aligned && head == tail) return inside_row(head, first - head * inner, last - head * inner);
  std::int64_t body = head;
  if (first % inner != 0) {
    inside_row(head, first - head * inner, inner);
    body = head + 1;
  }
  if (tail > body) {
    Box whole = prefix;
    whole.offset[level] = box.offset[level] + body;
    whole.extent[level] = tail - body;
    for (int i = level + 1; i < box.extent.rank; ++i) {
      whole.offset[i] = box.offset[i];
      whole.extent[i] = box.extent[i];
    }
    boxes.push_back(whole);
  }
  if (last % inner != 0) inside_row(tail, 0, last - tail * inner);
}

}  // namespace

std::vector<Box> boxes_of(const Box& box, std::int64_t first, std::int64_t last) {
  require(first >= 0 && last <= box.count(), "boxes_of: the range leaves the box");
  std::vector<Box> boxes;
  if (box.extent.rank > 0) append(boxes, box, box, 0, first, last);
  return boxes;
}

}  // namespace trireme
