#include <cmath>

#include "bench.h"

using namespace trireme;

namespace {

// cos and sin of position / 10^pair
Numbers angles(std::int64_t positions, std::int64_t half) {
  Numbers table;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10.0, -static_cast<double>(i));
      table.push_back(std::cos(angle));
      table.push_back(std::sin(angle));
    }
  }
  return table;
}

}  // namespace

TEST_CASE("a quarter turn moves the first half of a head into the second") {
  Bench bench(every_compute_type());
  const Tensor table = bench.of(bench.acc(), {2, 2, 2}, {1, 0, 1, 0, 0, 1, 0, 1});
  const Tensor x = bench.of({2, 5}, {1, 2, 3, 4, 9, 1, 2, 3, 4, 9});

  bench->rope(x, bench.ids({0, 1}), table, 5, false);

  CHECK(bench.read(x) == Numbers{1, 2, 3, 4, 9, -3, -4, 1, 2, 9});
}

TEST_CASE("rope turns pairs of every head by the angle of the position") {
  Bench bench(every_compute_type());
  const std::int64_t T = 3, H = 2, D = 8, half = 3;
  const std::vector<std::int32_t> positions{4, 0, 6};
  const Tensor table = bench.of(bench.acc(), {7, half, 2}, angles(7, half));
  const Tensor wide = bench.random({T, 3 * H * D}), x = wide.slice_columns(H * D, H * D);
  const Numbers before = bench.read(x), outside = bench.read(wide.slice_columns(0, H * D));

  bench->rope(x, bench.ids(positions), table, D, false);

  Numbers expected = before;
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t a = t * 16 + h * 8 + i, b = a + 3;
        const double angle = positions[t] * std::pow(10.0, -static_cast<double>(i));
        expected[a] = before[a] * std::cos(angle) - before[b] * std::sin(angle);
        expected[b] = before[b] * std::cos(angle) + before[a] * std::sin(angle);
      }
    }
  }
  CHECK(difference(bench.read(x), expected) < rounding_of(bench.dtype()));
  CHECK(difference(bench.read(wide.slice_columns(0, H * D)), outside) == 0);
}

TEST_CASE("backward turns back: it is the transpose of forward") {
  Bench bench(DType::f64);
  const Tensor table = bench.of({9, 4, 2}, angles(9, 4)), positions = bench.ids({3, 8});
  const Tensor x = bench.random({2, 16});
  const Numbers before = bench.read(x);

  bench->rope(x, positions, table, 8, false);
  CHECK(difference(bench.read(x), before) > 0.1);
  bench->rope(x, positions, table, 8, true);

  CHECK(difference(bench.read(x), before) < 1e-14);
}
