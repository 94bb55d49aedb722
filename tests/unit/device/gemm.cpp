#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

struct Sizes {
  std::int64_t T, F, C;
};

// y[i, j] = sum_k a(i, k) b(k, j) with accessors, in double
template <class A, class B>
Numbers product(std::int64_t rows, std::int64_t columns, std::int64_t inner, const A& a, const B& b) {
  Numbers y(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t k = 0; k < inner; ++k) y[static_cast<std::size_t>(i * columns + j)] += a(i, k) * b(k, j);
    }
  }
  return y;
}

auto element(const Numbers& m, std::int64_t columns) {
  return [&m, columns](std::int64_t r, std::int64_t c) { return m[static_cast<std::size_t>(r * columns + c)]; };
}

auto transposed(const Numbers& m, std::int64_t columns) {
  return [&m, columns](std::int64_t r, std::int64_t c) { return m[static_cast<std::size_t>(c * columns + r)]; };
}

Sizes odd_sizes() {
  return GENERATE(Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{1, 65, 33}, Sizes{67, 1, 129}, Sizes{65, 130, 1},
                  Sizes{70, 71, 72});
}

}  // namespace

TEST_CASE("matmul is x w^T + b by hand") {
  Bench bench(every_compute_type());
  const Tensor x = bench.of({2, 3}, {1, 2, 3, 4, 5, 6}), w = bench.of({2, 3}, {1, 0, -1, 2, 1, 0}),
               y = bench.nan({2, 2});

  bench->matmul(y, x, w, bench.of({2}, {10, 20}));
  CHECK(bench.read(y) == Numbers{8, 24, 8, 33});
  bench->matmul(y, x, w, Tensor{});
  CHECK(bench.read(y) == Numbers{-2, 4, -2, 13});
}

TEST_CASE("the three products agree with plain loops at odd sizes") {
  Bench bench(every_compute_type(), 2);
  const auto [T, F, C] = odd_sizes();
  const Tensor x = bench.random({T, C}), w = bench.random({F, C}), dy = bench.random({T, F}), bias = bench.random({F});
  const Tensor y = bench.nan({T, F}), dx = bench.nan({T, C}), dw = bench.nan({F, C});

  bench->matmul(y, x, w, bias);
  bench->matmul_dx(dx, dy, w);
  bench->matmul_dw(dw, dy, x, Into::replace);

  const Numbers x_read = bench.read(x), w_read = bench.read(w), dy_read = bench.read(dy), b = bench.read(bias);
  Numbers y_expected = product(T, F, C, element(x_read, C), transposed(w_read, C));
  for (std::size_t i = 0; i < y_expected.size(); ++i) y_expected[i] += b[i % b.size()];
  const double tolerance = rounding_of(bench.dtype());
  CHECK(difference(bench.read(y), y_expected) < tolerance);
  CHECK(difference(bench.read(dx), product(T, C, F, element(dy_read, F), element(w_read, C))) < tolerance);
  CHECK(difference(bench.read(dw), product(F, C, T, transposed(dy_read, F), element(x_read, C))) < tolerance);
}

TEST_CASE("pitched operands are columns of wider tensors") {
  Bench bench(every_compute_type());
  constexpr std::int64_t T = 9, F = 6, C = 5;
  const Tensor wide_x = bench.random({T, 3 * C}), wide_y = bench.nan({T, 3 * F}), w = bench.random({F, C});
  const Tensor x = bench.nan({T, C}), y = bench.nan({T, F}), dx = bench.nan({T, C}), wide_dx = bench.nan({T, 2 * C});
  const Tensor dw = bench.nan({F, C}), dw_pitched = bench.nan({F, C});
  bench->copy(x, wide_x.slice_columns(C, C));

  bench->matmul(y, x, w, Tensor{});
  bench->matmul(wide_y.slice_columns(F, F), wide_x.slice_columns(C, C), w, Tensor{});
  bench->matmul_dx(dx, y, w);
  bench->matmul_dx(wide_dx.slice_columns(C, C), wide_y.slice_columns(F, F), w);
  bench->matmul_dw(dw, y, x, Into::replace);
  bench->matmul_dw(dw_pitched, wide_y.slice_columns(F, F), wide_x.slice_columns(C, C), Into::replace);

  CHECK(difference(bench.read(wide_y.slice_columns(F, F)), bench.read(y)) == 0);
  CHECK(std::isnan(bench.read(wide_y)[F - 1]));
  CHECK(std::isnan(bench.read(wide_y)[2 * F]));
  CHECK(difference(bench.read(wide_dx.slice_columns(C, C)), bench.read(dx)) == 0);
  CHECK(difference(bench.read(dw_pitched), bench.read(dw)) == 0);
}

TEST_CASE("weight gradients accumulate in compute and in acc type") {
  Bench bench(every_compute_type());
  const Tensor dy = bench.random({8, 3}), x = bench.random({8, 4});
  const DType dtype = GENERATE(0, 1) == 0 ? bench.dtype() : bench.acc();
  const Tensor dw = bench.nan(dtype, {3, 4}), twice = bench.random(dtype, {3, 4});
  Numbers expected = bench.read(twice);
  bench->matmul_dw(dw, dy, x, Into::replace);

  bench->matmul_dw(twice, dy, x, Into::add);

  const Numbers once = bench.read(dw);
  for (std::size_t i = 0; i < once.size(); ++i) expected[i] += once[i];
  CHECK(difference(bench.read(twice), expected) < 2 * rounding_of(dtype));
}

TEST_CASE("16-bit results are the f32 results rounded once") {
  const DType half = GENERATE(DType::bf16, DType::f16);
  Bench bench(half);
  const Tensor x = bench.random({33, 47}), w = bench.random({21, 47}), bias = bench.random({21}),
               y = bench.nan({33, 21});
  const Tensor x32 = bench.nan(DType::f32, {33, 47}), w32 = bench.nan(DType::f32, {21, 47});
  const Tensor bias32 = bench.nan(DType::f32, {21}), y32 = bench.nan(DType::f32, {33, 21}),
               rounded = bench.nan({33, 21});
  bench->copy(x32, x);
  bench->copy(w32, w);
  bench->copy(bias32, bias);

  bench->matmul(y, x, w, bias);
  bench->matmul(y32, x32, w32, bias32);
  bench->copy(rounded, y32);

  CHECK(difference(bench.read(y), bench.read(rounded)) == 0);
}

TEST_CASE("a 16-bit product may be written in f32") {
  Bench bench(DType::bf16);
  const Tensor x = bench.of({1, 2}, {1, 0.0078125}), w = bench.of({1, 2}, {1, 0.0078125}),
               y = bench.nan(DType::f32, {1, 1});

  bench->matmul(y, x, w, Tensor{});

  CHECK(bench.read(y) == Numbers{1.00006103515625});
}

TEST_CASE("sum_rows adds columns of a pitched tensor") {
  Bench bench(every_compute_type(), 2);
  const Tensor dy = bench.random({37, 300}), part = dy.slice_columns(7, 200);
  const DType dtype = GENERATE(0, 1) == 0 ? bench.dtype() : bench.acc();
  const Tensor db = bench.nan(dtype, {200}), added = bench.random(dtype, {200});
  Numbers expected(200), expected_added = bench.read(added);
  const Numbers numbers = bench.read(part);
  for (std::size_t i = 0; i < numbers.size(); ++i) expected[i % 200] += numbers[i];
  for (std::size_t i = 0; i < 200; ++i) expected_added[i] += expected[i];

  bench->sum_rows(db, part, Into::replace);
  bench->sum_rows(added, part, Into::add);

  CHECK(difference(bench.read(db), expected) < rounding_of(dtype));
  CHECK(difference(bench.read(added), expected_added) < rounding_of(dtype));
}

TEST_CASE("the products are derivatives of matmul") {
  Bench bench(DType::f64);
  const Tensor x = bench.random({4, 3}), w = bench.random({5, 3}), bias = bench.random({5});
  const Tensor y = bench.nan({4, 5}), dy = bench.random({4, 5}), dx = bench.nan({4, 3}), dw = bench.nan({5, 3}),
               db = bench.nan({5});
  const auto loss = [&] {
    bench->matmul(y, x, w, bias);
    return weighted_sum(bench, y, dy);
  };

  bench->matmul_dx(dx, dy, w);
  bench->matmul_dw(dw, dy, x, Into::replace);
  bench->sum_rows(db, dy, Into::replace);

  CHECK(difference(bench.read(dx), finite_difference(bench, x, loss)) < k_gradient_tolerance);
  CHECK(difference(bench.read(dw), finite_difference(bench, w, loss)) < k_gradient_tolerance);
  CHECK(difference(bench.read(db), finite_difference(bench, bias, loss)) < k_gradient_tolerance);
}

TEST_CASE("products of no rows give no output and zero gradients") {
  Bench bench(DType::f32);
  const Tensor x = bench.zeros(DType::f32, {0, 3}), dy = bench.zeros(DType::f32, {0, 2}), w = bench.random({2, 3});
  const Tensor dw = bench.nan({2, 3}), kept = bench.of({2, 3}, {1, 2, 3, 4, 5, 6}), db = bench.nan({2});

  bench->matmul(dy, x, w, Tensor{});
  bench->matmul_dx(x, dy, w);
  bench->matmul_dw(dw, dy, x, Into::replace);
  bench->matmul_dw(kept, dy, x, Into::add);
  bench->sum_rows(db, dy, Into::replace);

  CHECK(bench.read(dw) == Numbers(6));
  CHECK(bench.read(kept) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(bench.read(db) == Numbers(2));
}

TEST_CASE("the workspace stops growing after the first products") {
  Bench bench(DType::bf16);
  const Tensor x = bench.random({64, 64}), w = bench.random({64, 64}), y = bench.nan({64, 64});
  bench->matmul(y, x, w, Tensor{});
  const std::size_t bytes = bench->workspace_bytes();

  for (int i = 0; i < 3; ++i) bench->matmul(y, x, w, Tensor{});

  CHECK(bytes >= 3 * 64 * 64 * sizeof(float));
  CHECK(bench->workspace_bytes() == bytes);
}
