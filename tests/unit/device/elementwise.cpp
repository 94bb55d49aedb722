#include <cmath>

#include "bench.h"
#include "trireme/base/philox.h"

using namespace trireme;

TEST_CASE("fill writes the slice and nothing else") {
  Bench bench(every_compute_type());
  const Tensor x = bench.zeros(bench.dtype(), {2, 4});

  bench->fill(x.slice_columns(1, 2), 1.5);

  CHECK(bench.read(x) == Numbers{0, 1.5, 1.5, 0, 0, 1.5, 1.5, 0});
}

TEST_CASE("fill writes integers") {
  Bench bench(DType::f32);
  const Tensor ids = bench.ids({1, 2, 3}), words = bench.integers<std::uint16_t>(DType::u16, {1, 2, 3});
  std::vector<std::int32_t> ids_read(3);
  std::vector<std::uint16_t> words_read(3);

  bench->fill(ids, -7);
  bench->fill(words, 65535);
  bench->to_host(ids_read.data(), ids);
  bench->to_host(words_read.data(), words);

  CHECK(ids_read == std::vector<std::int32_t>{-7, -7, -7});
  CHECK(words_read == std::vector<std::uint16_t>{65535, 65535, 65535});
}

TEST_CASE("normal numbers of a box are those of the whole matrix") {
  Bench bench(every_compute_type());
  const Tensor box = bench.nan({3, 5});
  NormalFill fill{{99, 3, 2}, 2, 3, 11, 0.02};

  bench->fill_normal(box, fill);

  Numbers expected;
  for (std::uint64_t r = 0; r < 3; ++r) {
    for (std::uint64_t c = 0; c < 5; ++c) expected.push_back(0.02 * random_normal(fill.key, (2 + r) * 11 + 3 + c));
  }
  CHECK(difference(bench.read(box), expected) < rounding_of(bench.dtype()) * 0.5);
  if (bench.dtype() == DType::f64) CHECK(difference(bench.read(box), expected) == 0);
}

TEST_CASE("copy rounds between every pair of types and keeps pitches") {
  const DType from = every_compute_type();
  const DType to = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
  Bench bench(from);
  const Tensor x = bench.random({37, 65}), y = bench.nan(to, {37, 100});

  bench->copy(y.slice_columns(20, 65), x);

  CHECK(difference(bench.read(y.slice_columns(20, 65)), bench.read(x)) < rounding_of(to));
  CHECK(std::isnan(bench.read(y)[19]));
  CHECK(std::isnan(bench.read(y)[85]));
}

TEST_CASE("copy of equal types copies bits, integers too") {
  Bench bench(DType::f32);
  const Tensor a = bench.ids({5, -6, 7}), b = bench.ids({0, 0, 0});
  std::vector<std::int32_t> read(3);

  bench->copy(b, a);
  bench->to_host(read.data(), b);

  CHECK(read == std::vector<std::int32_t>{5, -6, 7});
}

TEST_CASE("copy and add refuse different shapes") {
  Bench bench(DType::f32);
  const Tensor a = bench.zeros(DType::f32, {2, 3}), b = bench.zeros(DType::f32, {2, 2});

  CHECK_THROWS_AS(bench->copy(a, b), std::logic_error);
  CHECK_THROWS_AS(bench->add(a, b), std::logic_error);
}

TEST_CASE("add sums in the wider type") {
  Bench bench(DType::bf16);
  const Tensor wide = bench.of(DType::f32, {2}, {1, 1}), narrow = bench.of(DType::bf16, {2}, {0.00390625, 256});
  const Tensor sum = bench.of(DType::bf16, {2}, {1, 1});

  bench->add(wide, narrow);
  bench->add(sum, narrow);

  CHECK(bench.read(wide) == Numbers{1.00390625, 257});
  CHECK(bench.read(sum) == Numbers{1, 256});  // 1 + 2^-8 and 257 are ties: to even
}

TEST_CASE("add of pitched tensors") {
  Bench bench(every_compute_type());
  const Tensor y = bench.of({2, 3}, {1, 2, 3, 4, 5, 6}), x = bench.of({2, 2}, {10, 20, 30, 40});

  bench->add(y.slice_columns(1, 2), x);

  CHECK(bench.read(y) == Numbers{1, 12, 23, 4, 35, 46});
}

TEST_CASE("scale multiplies every element of a long tensor") {
  Bench bench(every_compute_type(), 2);
  const Tensor x = bench.random({100000});
  Numbers expected = bench.read(x);
  for (double& value : expected) value *= -2;

  bench->scale(x, -2);

  CHECK(difference(bench.read(x), expected) == 0);
}

TEST_CASE("operations on no rows do nothing") {
  Bench bench(DType::f32);
  const Tensor x = bench.zeros(DType::f32, {0, 8}), bias = bench.zeros(DType::f32, {8}), rows = bench.rows({});

  bench->fill(x, 1);
  bench->copy(x, x);
  bench->add(x, x);
  bench->scale(x, 2);
  bench->dropout_add(x, x, bias, x, rows, 0.5, {});

  CHECK(x.count() == 0);
}
