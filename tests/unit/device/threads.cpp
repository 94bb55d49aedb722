#include "attention_case.h"

using namespace trireme;

namespace {

// Every result of one run over all families, at sizes above the limits of threading.
struct Run {
  Numbers exact;     // must not depend on the number of threads
  Numbers products;  // OpenBLAS cuts its work by threads
};

void keep(Bench& bench, Numbers& list, Tensor t) {
  const Numbers numbers = bench.read(t);
  list.insert(list.end(), numbers.begin(), numbers.end());
}

void run_products(Bench& bench, Run& run) {
  const Tensor x = bench.random({300, 130}), w = bench.random({70, 130}), dy = bench.random({300, 70});
  const Tensor y = bench.nan({300, 70}), dx = bench.nan({300, 130}), dw = bench.nan({70, 130});
  bench->matmul(y, x, w, bench.random({70}));
  bench->matmul_dx(dx, dy, w);
  bench->matmul_dw(dw, dy, x, Into::replace);
  for (const Tensor& t : {y, dx, dw}) keep(bench, run.products, t);
}

void run_norm(Bench& bench, Run& run) {
  const Tensor x = bench.random({100, 300}), gain = bench.random({300}), dy = bench.random({100, 300});
  const Tensor y = bench.nan({100, 300}), mean = bench.nan(bench.acc(), {100}), rstd = bench.nan(bench.acc(), {100});
  const Tensor dx = bench.random({100, 300}), dgain = bench.nan(bench.acc(), {300}),
               dbias = bench.nan(bench.acc(), {300});
  bench->norm(y, mean, rstd, x, gain, gain, NormKind::layer, 1e-5);
  bench->norm_backward(dx, dgain, dbias, dy, x, mean, rstd, gain, NormKind::layer, Into::replace);
  for (const Tensor& t : {y, mean, rstd, dx, dgain, dbias}) keep(bench, run.exact, t);
}

void run_attention(Bench& bench, Run& run) {
  const AttentionCase c = make_attention(bench, attention_shape(2, 150, 4, 2, 8), bench.dtype());
  const Tensor dq = bench.nan(c.q.shape), dk = bench.nan(c.k.shape), dv = bench.nan(c.v.shape);
  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);
  bench->attention_backward(dq, dk, dv, bench.random(c.out.shape), c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape,
                            Into::replace);
  for (const Tensor& t : {c.out, c.lse, dq, dk, dv}) keep(bench, run.exact, t);
}

void run_rest(Bench& bench, Run& run) {
  const Tensor x = bench.random({200, 256}), y = bench.nan({200, 256}), table = bench.random(bench.acc(), {50, 256});
  const Tensor sum = bench.of(DType::f64, {1}, {0}), square = bench.of(DType::f64, {1}, {0}), db = bench.nan({256});
  std::vector<std::int32_t> ids(200);
  std::vector<std::int64_t> rows(200);
  for (std::size_t i = 0; i < 200; ++i) {
    ids[i] = static_cast<std::int32_t>(i * 7 % 50);
    rows[i] = static_cast<std::int64_t>(3 * i);
  }
  bench->dropout_add(y, x, Tensor{}, x, bench.rows(rows), 0.3, {1, 2, 3});
  keep(bench, run.exact, y);
  bench->activation(y, x, Activation::gelu_erf);
  keep(bench, run.exact, y);
  bench->embed_backward(table, x, bench.ids(ids), 0);
  bench->sum(sum, x);
  bench->sum_of_squares(square, x);
  bench->sum_rows(db, x, Into::replace);
  for (const Tensor& t : {table, sum, square, db}) keep(bench, run.exact, t);
}

Run run_all(DType dtype, int n_threads) {
  Bench bench(dtype, n_threads);
  Run run;
  run_products(bench, run);
  run_norm(bench, run);
  run_attention(bench, run);
  run_rest(bench, run);
  return run;
}

}  // namespace

TEST_CASE("results do not depend on the number of threads, nor on the run") {
  const DType dtype = every_compute_type();

  const Run one = run_all(dtype, 1), two = run_all(dtype, 2), three = run_all(dtype, 3), again = run_all(dtype, 2);

  CHECK(difference(two.exact, one.exact) == 0);
  CHECK(difference(three.exact, one.exact) == 0);
  CHECK(difference(two.products, one.products) < rounding_of(dtype));
  CHECK(difference(again.exact, two.exact) == 0);
  CHECK(difference(again.products, two.products) == 0);
}
