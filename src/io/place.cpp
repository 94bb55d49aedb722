#include "place.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme {

namespace {

const Slab& slab_of(const ArrayPlace& place, std::int64_t row) {
  const auto behind = std::upper_bound(place.slabs.begin(), place.slabs.end(), row,
                                       [](std::int64_t r, const Slab& slab) { return r < slab.first; });
  require(behind != place.slabs.begin(), "the slabs of an array begin at row 0");
  return *(behind - 1);
}

struct Found {
  std::int64_t element = 0;  // behind the slab's address
  std::int64_t run = 0;      // elements of dimension `last` that follow it in the file
};

// index: of the array, inside the slab.
Found find(const ArrayPlace& place, const Slab& slab, const Shape& index) {
  const int last = place.shape.rank - 1;
  Found found;
  std::int64_t block = 0, inner = 0, block_count = 1;
  for (int d = 0; d <= last; ++d) {
    const std::int64_t size = d == 0 ? slab.count : place.shape[d], at = d == 0 ? index[0] - slab.first : index[d];
    const std::int64_t length = slab.chunk.rank > 0 ? slab.chunk[d] : std::max<std::int64_t>(size, 1);
    block = block * div_up(size, length) + at / length;
    inner = inner * length + at % length;
    block_count *= length;
    if (d == last) found.run = std::min(length - at % length, size - at);
  }
  found.element = block * block_count + inner;
  return found;
}

void append(Lines& lines, const Segment& segment) {
  if (!lines.segments.empty()) {
    Segment& before = lines.segments.back();
    if (before.file == segment.file && before.offset + before.bytes == segment.offset &&
        before.from + before.bytes == segment.from) {
      before.bytes += segment.bytes;
      return;
    }
  }
  lines.segments.push_back(segment);
}

void append(Lines& lines, const Stretch& stretch) {
  if (!lines.stretches.empty()) {
    Stretch& before = lines.stretches.back();
    if (before.at + before.count == stretch.at && before.from + before.count == stretch.from) {
      before.count += stretch.count;
      return;
    }
  }
  lines.stretches.push_back(stretch);
}

std::int64_t linear(const Shape& shape, const Shape& index) {
  std::int64_t at = 0;
  for (int d = 0; d < shape.rank; ++d) at = at * shape[d] + index[d];
  return at;
}

// `n` elements along the last dimension from `index` on; `from` counts the elements of memory.
void append_row(Lines& lines, const ArrayPlace& place, Shape index, std::int64_t n, std::int64_t from) {
  const int last = place.shape.rank - 1;
  const auto size = static_cast<std::int64_t>(size_of(place.dtype));
  while (n > 0 && index[0] < place.shape[0]) {
    const Slab& slab = slab_of(place, index[0]);
    const Found found = find(place, slab, index);
    const std::int64_t run = std::min(n, found.run);
    append(lines, Segment{slab.file, slab.address + found.element * size, from * size, run * size});
    append(lines, Stretch{linear(place.shape, index), from, run});
    lines.count += run;
    index[last] += run;
    from += run;
    n -= run;
  }
}

void append_box(Lines& lines, const ArrayPlace& place, const Box& box, std::int64_t from) {
  const int last = place.shape.rank - 1;
  const std::int64_t length = box.extent[last], n_rows = box.count() / length;
  Shape index = box.offset;
  for (std::int64_t row = 0; row < n_rows; ++row) {
    append_row(lines, place, index, length, from + row * length);
    for (int d = last - 1; d >= 0 && ++index[d] == box.offset[d] + box.extent[d]; --d) index[d] = box.offset[d];
  }
}

}  // namespace

Lines lines_of(const ArrayPlace& place, const Box& box, const Range& part) {
  Lines lines;
  std::int64_t from = 0;
  for (const Box& whole : boxes_of(box, part.first, part.last)) {
    append_box(lines, place, whole, from);
    from += whole.count();
  }
  std::sort(lines.segments.begin(), lines.segments.end(), [](const Segment& a, const Segment& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  });
  return lines;
}

}  // namespace trireme
