#include "trireme/base/shape.h"

#include <stdexcept>

#include "catch.h"

using namespace trireme;

namespace {

// Row-major numbers, inside `box`, of the elements of `part`, in order.
std::vector<std::int64_t> numbers(const Box& box, const Box& part) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < part.count(); ++i) {
    std::int64_t rest = i, number = 0, stride = 1;
    for (int d = part.extent.rank - 1; d >= 0; --d) {
      const std::int64_t at = part.offset[d] + rest % part.extent[d] - box.offset[d];
      REQUIRE((at >= 0 && at < box.extent[d]));
      rest /= part.extent[d];
      number += at * stride;
      stride *= box.extent[d];
    }
    found.push_back(number);
  }
  return found;
}

void check_all_ranges(const Box& box) {
  for (std::int64_t first = 0; first <= box.count(); ++first) {
    for (std::int64_t last = first; last <= box.count(); ++last) {
      const std::vector<Box> boxes = boxes_of(box, first, last);

      std::int64_t next = first;
      for (const Box& part : boxes) {
        for (const std::int64_t number : numbers(box, part)) REQUIRE(number == next++);
      }
      REQUIRE(next == last);
      REQUIRE(boxes.size() <= static_cast<std::size_t>(2 * box.extent.rank - 1));
    }
  }
}

}  // namespace

TEST_CASE("the boxes of any range cover it once, in order") {
  check_all_ranges({{5}, {7}});
  check_all_ranges({{2, 3}, {4, 5}});
  check_all_ranges({{1, 2, 3}, {3, 2, 4}});
  check_all_ranges({{0, 0, 1, 0}, {2, 2, 1, 3}});
}

TEST_CASE("a range of a matrix is head row, body and tail row") {
  const std::vector<Box> boxes = boxes_of({{10, 20}, {6, 8}}, 5, 35);

  REQUIRE(boxes.size() == 3);
  CHECK(boxes[0] == Box{{10, 25}, {1, 3}});
  CHECK(boxes[1] == Box{{11, 20}, {3, 8}});
  CHECK(boxes[2] == Box{{14, 20}, {1, 3}});
}

TEST_CASE("whole rows are one box") {
  const std::vector<Box> boxes = boxes_of({{0, 0}, {6, 8}}, 8, 40);

  REQUIRE(boxes.size() == 1);
  CHECK(boxes[0] == Box{{1, 0}, {4, 8}});
}

TEST_CASE("a range outside the box is our bug") {
  CHECK_THROWS_AS(boxes_of({{0}, {4}}, 2, 5), std::logic_error);
}

TEST_CASE("a shape counts elements and columns") {
  const Shape shape{4, 3, 2};

  CHECK(shape.count() == 24);
  CHECK(shape.columns() == 6);
  CHECK(Shape{}.count() == 1);
  CHECK(to_string(shape) == "[4, 3, 2]");
}

TEST_CASE("cuts are contiguous, complete and even to one item") {
  const std::int64_t n = GENERATE(0, 1, 7, 12, 101), parts = GENERATE(1, 2, 3, 8);
  std::int64_t next = 0;

  for (std::int64_t i = 0; i < parts; ++i) {
    const Range range = cut(n, parts, i);
    CHECK(range.first == next);
    CHECK(range.count() >= n / parts);
    CHECK(range.count() <= n / parts + 1);
    next = range.last;
  }

  CHECK(next == n);
}
