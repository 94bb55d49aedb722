#include <cmath>

#include "attention_case.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

struct Gradients {
  Tensor dq, dk, dv;
};

Gradients make_gradients(Bench& bench, const AttentionCase& c, DType dtype) {
  const auto like = [&](const Tensor& t) {
    return bench.nan(dtype, {t.rows(), t.columns() + 2}).slice_columns(1, t.columns());
  };
  return {like(c.q), like(c.k), like(c.v)};
}

void run_backward(Bench& bench, const AttentionCase& c, const Gradients& g, Tensor dout, Into into) {
  bench->attention_backward(g.dq, g.dk, g.dv, dout, c.out, c.lse, c.q, c.k, c.v, c.doc_start, c.shape, into);
}

void check_gradients(Bench& bench, const AttentionCase& c) {
  const Tensor dout = bench.random(c.out.shape);
  const Gradients g = make_gradients(bench, c, bench.dtype());
  const auto loss = [&] {
    bench->attention(c.out, c.lse, c.q, c.k, c.v, c.doc_start, c.shape);
    return weighted_sum(bench, c.out, dout);
  };
  loss();

  run_backward(bench, c, g, dout, Into::replace);

  CHECK(difference(bench.read(g.dq), finite_difference(bench, c.q, loss)) < k_gradient_tolerance);
  CHECK(difference(bench.read(g.dk), finite_difference(bench, c.k, loss)) < k_gradient_tolerance);
  CHECK(difference(bench.read(g.dv), finite_difference(bench, c.v, loss)) < k_gradient_tolerance);
}

Numbers sum(Numbers a, const Numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace

TEST_CASE("the backward pass of attention is its derivative, in groups, windows and documents") {
  Bench bench(DType::f64);
  AttentionShape s = attention_shape(2, 7, 4, GENERATE(1, 2, 4), 3);
  s.window = GENERATE(0, 3);
  AttentionCase c = make_attention(bench, s, bench.dtype());
  if (GENERATE(false, true)) c.doc_start = documents(bench, s, 4);

  check_gradients(bench, c);
}

TEST_CASE("queries that see nothing have no gradient") {
  Bench bench(DType::f64);
  AttentionShape s = attention_shape(1, 5, 2, 1, 3);
  s.first_k = 2;

  check_gradients(bench, make_attention(bench, s, bench.dtype()));
}

TEST_CASE("the backward pass over several tiles agrees with f64 in every type and adds where asked") {
  Bench bench(every_compute_type(), 2);
  const DType out = GENERATE(0, 1) == 0 ? bench.dtype() : bench.acc();
  AttentionCase c = make_attention(bench, attention_shape(2, 330, 4, 2, 16), out);
  c.doc_start = documents(bench, c.shape, 200);
  const Tensor dout = bench.random(out, c.out.shape);
  const Gradients g = make_gradients(bench, c, out);
  Bench wide(DType::f64);
  AttentionCase w = make_attention(wide, c.shape, DType::f64);
  w.doc_start = c.doc_start;
  wide.write(w.q, bench.read(c.q));
  wide.write(w.k, bench.read(c.k));
  wide.write(w.v, bench.read(c.v));
  const Gradients expected = make_gradients(wide, w, DType::f64);
  const Tensor dout64 = wide.of(dout.shape, bench.read(dout));

  bench->attention(c.out, c.lse, c.q, c.k, c.v, c.doc_start, c.shape);
  run_backward(bench, c, g, dout, Into::replace);
  wide->attention(w.out, w.lse, w.q, w.k, w.v, w.doc_start, w.shape);
  run_backward(wide, w, expected, dout64, Into::replace);

  const double tolerance = 5 * rounding_of(out);  // delta is a difference of rounded numbers
  CHECK(difference(bench.read(g.dq), wide.read(expected.dq)) < tolerance);
  CHECK(difference(bench.read(g.dk), wide.read(expected.dk)) < tolerance);
  CHECK(difference(bench.read(g.dv), wide.read(expected.dv)) < tolerance);
  const Numbers once = bench.read(g.dk), q_once = bench.read(g.dq);
  run_backward(bench, c, g, dout, Into::add);
  CHECK(difference(bench.read(g.dk), sum(once, once)) < rounding_of(out));
  CHECK(difference(bench.read(g.dq), sum(q_once, q_once)) < rounding_of(out));
}

TEST_CASE("gradients of two halves of the keys are those of the whole") {
  Bench bench(DType::f64);
  const std::int64_t rows = 100, cut = 35;
  AttentionCase c = make_attention(bench, attention_shape(1, rows, 2, 1, 4), bench.dtype());
  const Tensor dout = bench.random(c.out.shape);
  const Gradients whole = make_gradients(bench, c, bench.dtype()), parts = make_gradients(bench, c, bench.dtype());
  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);
  run_backward(bench, c, whole, dout, Into::replace);
  AttentionCase first = c, second = c;
  first.shape.k_rows = cut;
  second.shape.k_rows = rows - cut;
  second.shape.first_k = cut;
  second.k = c.k.slice_rows(cut, rows - cut);
  second.v = c.v.slice_rows(cut, rows - cut);
  bench->fill(parts.dk, 0);
  bench->fill(parts.dv, 0);

  run_backward(bench, first, parts, dout, Into::replace);
  run_backward(bench, second, {parts.dq, parts.dk.slice_rows(cut, rows - cut), parts.dv.slice_rows(cut, rows - cut)},
               dout, Into::add);

  CHECK(difference(bench.read(parts.dq), bench.read(whole.dq)) < 1e-13);
  CHECK(difference(bench.read(parts.dk), bench.read(whole.dk)) < 1e-13);
  CHECK(difference(bench.read(parts.dv), bench.read(whole.dv)) < 1e-13);
}
