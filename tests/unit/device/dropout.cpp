#include <cmath>

#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

const RandomKey k_key{17, stream_of("dropout"), 5};

std::vector<std::int64_t> counting(std::int64_t first, std::int64_t n) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(first + i);
  return rows;
}

}  // namespace

TEST_CASE("without dropout bias and residual are added, and either may be absent") {
  Bench bench(every_compute_type());
  const Tensor x = bench.of({2, 2}, {1, 2, 3, 4}), bias = bench.of({2}, {10, 20});
  const Tensor residual = bench.of({2, 2}, {100, 100, 200, 200}), y = bench.nan({2, 2}), rows = bench.rows({0, 1});

  bench->dropout_add(y, x, bias, residual, rows, 0, k_key);
  CHECK(bench.read(y) == Numbers{111, 122, 213, 224});
  bench->dropout_add(y, x, Tensor{}, residual, rows, 0, k_key);
  CHECK(bench.read(y) == Numbers{101, 102, 203, 204});
  bench->dropout_add(y, x, bias, Tensor{}, Tensor{}, 0, k_key);
  CHECK(bench.read(y) == Numbers{11, 22, 13, 24});
}

TEST_CASE("an element is kept when its word of the key says so") {
  Bench bench(every_compute_type());
  constexpr std::int64_t C = 1027;
  const double p = 0.3;
  const std::vector<std::int64_t> rows{4, 0, 1000000007};
  const Tensor x = bench.random({3, C}), residual = bench.random({3, C}), y = bench.nan({3, C});

  bench->dropout_add(y, x, Tensor{}, residual, bench.rows(rows), p, k_key);

  const Numbers x_read = bench.read(x), residual_read = bench.read(residual);
  Numbers expected;
  for (std::size_t i = 0; i < x_read.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(rows[i / C] * C + static_cast<std::int64_t>(i % C));
    const bool kept = static_cast<double>(random_word(k_key, index)) >= p * 4294967296.0;
    expected.push_back(residual_read[i] + (kept ? x_read[i] / (1 - p) : 0));
  }
  CHECK(difference(bench.read(y), expected) < rounding_of(bench.dtype()));
}

TEST_CASE("dropout keeps the mean and drops the share p") {
  Bench bench(DType::f32, 2);
  const double p = GENERATE(0.1, 0.5, 0.9);
  const Tensor x = bench.nan({512, 256}), y = bench.nan({512, 256});
  const double n = 512 * 256;
  bench->fill(x, 1);

  bench->dropout_add(y, x, Tensor{}, Tensor{}, bench.rows(counting(0, 512)), p, k_key);

  double zeros = 0, sum = 0;
  for (const double value : bench.read(y)) {
    zeros += value == 0;
    sum += value;
  }
  CHECK(std::abs(zeros / n - p) < 5 * std::sqrt(p * (1 - p) / n));
  CHECK(std::abs(sum / n - 1) < 5 * std::sqrt(p / (1 - p) / n));
}

TEST_CASE("rows keep their dropout wherever they are computed") {
  Bench bench(DType::f64);
  const Tensor x = bench.random({4, 6}), whole = bench.nan({4, 6}), part = bench.nan({2, 6});

  bench->dropout_add(whole, x, Tensor{}, Tensor{}, bench.rows({7, 8, 9, 10}), 0.5, k_key);
  bench->dropout_add(part, x.slice_rows(2, 2), Tensor{}, Tensor{}, bench.rows({9, 10}), 0.5, k_key);

  CHECK(bench.read(part) == bench.read(whole.slice_rows(2, 2)));
}

TEST_CASE("y may be x or the residual") {
  Bench bench(every_compute_type());
  const Tensor x = bench.random({5, 40}), residual = bench.random({5, 40}), bias = bench.random({40}),
               y = bench.nan({5, 40});
  const Tensor rows = bench.rows(counting(3, 5)), x_copy = bench.nan({5, 40});
  bench->copy(x_copy, x);
  bench->dropout_add(y, x, bias, residual, rows, 0.4, k_key);

  bench->dropout_add(x_copy, x_copy, bias, residual, rows, 0.4, k_key);
  bench->dropout_add(residual, x, bias, residual, rows, 0.4, k_key);

  CHECK(difference(bench.read(x_copy), bench.read(y)) == 0);
  CHECK(difference(bench.read(residual), bench.read(y)) == 0);
}

TEST_CASE("the backward pass of dropout is its derivative") {
  Bench bench(DType::f64);
  const Tensor x = bench.random({3, 9}), y = bench.nan({3, 9}), dy = bench.random({3, 9}), dx = bench.nan({3, 9});
  const Tensor rows = bench.rows({5, 2, 11});
  const auto loss = [&] {
    bench->dropout_add(y, x, Tensor{}, Tensor{}, rows, 0.4, k_key);
    return weighted_sum(bench, y, dy);
  };

  bench->dropout_backward(dx, dy, rows, 0.4, k_key);

  CHECK(difference(bench.read(dx), finite_difference(bench, x, loss)) < k_gradient_tolerance);
}
