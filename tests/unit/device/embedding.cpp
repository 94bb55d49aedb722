#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

TEST_CASE("embed copies or adds the rows of the ids") {
  Bench bench(every_compute_type());
  const Tensor table = bench.of({3, 2}, {1, 2, 3, 4, 5, 6}), y = bench.nan({4, 2}), ids = bench.ids({12, 10, 12, 11});

  bench->embed(y, table, ids, 10, Into::replace);
  CHECK(bench.read(y) == Numbers{5, 6, 1, 2, 5, 6, 3, 4});
  bench->embed(y, table, ids, 10, Into::add);
  CHECK(bench.read(y) == Numbers{10, 12, 2, 4, 10, 12, 6, 8});
}

TEST_CASE("ids of other ranks contribute nothing") {
  Bench bench(every_compute_type());
  const Tensor table = bench.of({2, 1}, {3, 4}), y = bench.nan({4, 1}), ids = bench.ids({9, 10, 11, 12});
  const Tensor dtable = bench.of({2, 1}, {100, 200});

  bench->embed(y, table, ids, 10, Into::replace);
  CHECK(bench.read(y) == Numbers{0, 3, 4, 0});
  bench->embed(y, table, ids, 10, Into::add);
  CHECK(bench.read(y) == Numbers{0, 6, 8, 0});
  bench->embed_backward(dtable, bench.of({4, 1}, {1, 2, 3, 4}), ids, 10);
  CHECK(bench.read(dtable) == Numbers{102, 203});
}

TEST_CASE("the backward pass of embed is its derivative and adds") {
  Bench bench(DType::f64, 2);
  const Tensor table = bench.random({5, 130}), y = bench.nan({7, 130}), dy = bench.random({7, 130});
  const Tensor ids = bench.ids({4, 1, 1, 9, 0, 1, 4}), dtable = bench.random({5, 130});
  const Numbers before = bench.read(dtable);
  const auto loss = [&] {
    bench->embed(y, table, ids, 0, Into::replace);
    return weighted_sum(bench, y, dy);
  };

  bench->embed_backward(dtable, dy, ids, 0);

  Numbers expected = finite_difference(bench, table, loss);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  CHECK(difference(bench.read(dtable), expected) < k_gradient_tolerance);
}

TEST_CASE("many tokens of one row are summed before they are rounded") {
  Bench bench(DType::bf16);
  const DType dtype = GENERATE(DType::bf16, DType::f32);
  const Tensor dtable = bench.of(dtype, {2, 1}, {0, 0});
  const Tensor dy = bench.of({1024, 1}, Numbers(1024, 1)), ids = bench.ids(std::vector<std::int32_t>(1024, 1));

  bench->embed_backward(dtable, dy, ids, 0);

  CHECK(bench.read(dtable) == Numbers{0, 1024});  // added one by one in bf16, the sum would stay at 256
}
