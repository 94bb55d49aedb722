#include "trireme/device/tensor.h"

#include <stdexcept>

#include "bench.h"

using namespace trireme;

TEST_CASE("column slices keep the pitch and row slices keep the columns") {
  Bench bench(DType::f32);
  const Tensor x = bench.of({3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});

  const Tensor part = x.slice_columns(1, 2).slice_rows(1, 2);

  CHECK(part.pitch == 4);
  CHECK_FALSE(part.contiguous());
  CHECK(bench.read(part) == Numbers{11, 12, 21, 22});
  CHECK(bench.read(part.slice_rows(0, 1)) == Numbers{11, 12});
  CHECK(part.slice_rows(0, 1).contiguous());
}

TEST_CASE("another shape has the same elements") {
  Bench bench(DType::f64);
  const Tensor x = bench.of({2, 3}, {1, 2, 3, 4, 5, 6});

  CHECK(x.as({3, 2}).shape == Shape{3, 2});
  CHECK(x.as({3, 2}).pitch == 2);
  CHECK(bench.read(x.flat()) == bench.read(x));
  CHECK_THROWS_AS(x.as({4, 2}), std::logic_error);
  CHECK_THROWS_AS(x.slice_columns(0, 2).flat(), std::logic_error);
}

TEST_CASE("slices outside a tensor are our bug") {
  Bench bench(DType::f64);
  const Tensor x = bench.zeros(DType::f64, {2, 3});

  CHECK_THROWS_AS(x.slice_rows(1, 2), std::logic_error);
  CHECK_THROWS_AS(x.slice_columns(3, 1), std::logic_error);
  CHECK_THROWS_AS(x.slice_columns(-1, 1), std::logic_error);
  CHECK_FALSE(Tensor{});
}

TEST_CASE("pitched tensors travel to the host and back") {
  Bench bench(DType::f64);
  const Tensor x = bench.zeros(DType::f64, {2, 3});
  const Numbers sent{1, 2, 3, 4};
  Numbers received(4);

  bench->to_device(x.slice_columns(1, 2), sent.data());
  bench->to_host(received.data(), x.slice_columns(1, 2));

  CHECK(received == sent);
  CHECK(bench.read(x) == Numbers{0, 1, 2, 0, 3, 4});
}
