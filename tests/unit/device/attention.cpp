#include <cmath>

#include "attention_case.h"

using namespace trireme;

namespace {

void check_forward(Bench& bench, AttentionCase c) {
  bench->attention(c.out, c.lse, c.q, c.k, c.v, c.doc_start, c.shape);

  const PlainAttention plain = plain_attention(bench, c);
  CHECK(difference(bench.read(c.out), plain.out) < rounding_of(c.out.dtype));
  CHECK(difference(finite(bench.read(c.lse)), finite(plain.lse)) < rounding_of(bench.acc()));
}

}  // namespace

TEST_CASE("attention by hand: equal scores give the mean of the values seen") {
  Bench bench(every_compute_type());
  AttentionShape shape = attention_shape(1, 3, 1, 1, 1);
  const Tensor zero = bench.of({3, 1}, {0, 0, 0}), v = bench.of({3, 1}, {2, 4, 12}), out = bench.nan({3, 1});
  const Tensor lse = bench.nan(bench.acc(), {1, 3});

  bench->attention(out, lse, zero, zero, v, Tensor{}, shape);

  CHECK(bench.read(out) == Numbers{2, 3, 6});
  CHECK(difference(bench.read(lse), {0, std::log(2.0), std::log(3.0)}) < 1e-6);
}

TEST_CASE("attention agrees with plain loops at odd sizes, in compute and in acc output") {
  Bench bench(every_compute_type(), 2);
  const std::int64_t rows = GENERATE(1, 5, 64, 65, 321), D = GENERATE(1, 24);
  const DType out = GENERATE(0, 1) == 0 ? bench.dtype() : bench.acc();

  check_forward(bench, make_attention(bench, attention_shape(2, rows, 2, 2, D), out));
}

TEST_CASE("query heads share key heads in groups") {
  Bench bench(every_compute_type(), 2);
  const std::int64_t G = GENERATE(1, 2, 3);

  check_forward(bench, make_attention(bench, attention_shape(2, 70, 6, G, 8), bench.dtype()));
}

TEST_CASE("windows, documents, positions and strides hide what they should") {
  Bench bench(GENERATE(DType::f64, DType::f32));
  AttentionShape s = attention_shape(2, 150, 2, 1, 8);
  s.q_rows = 90;
  s.first_q = GENERATE(0, 60, 500);
  s.first_k = GENERATE(0, 30);
  s.window = GENERATE(0, 1, 40, 1000);
  const bool has_documents = GENERATE(false, true);
  AttentionCase c = make_attention(bench, s, bench.dtype());
  if (has_documents) c.doc_start = documents(bench, s, 37);
  bench->fill(c.out, 0);  // rows between q_rows and q_stride stay

  check_forward(bench, c);
}

TEST_CASE("queries that see nothing give zero and minus infinity") {
  Bench bench(every_compute_type());
  AttentionShape s = attention_shape(1, 4, 1, 1, 3);
  s.first_k = 2;
  const AttentionCase c = make_attention(bench, s, bench.dtype());

  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, s);

  const Numbers out = bench.read(c.out), lse = bench.read(c.lse);
  CHECK(Numbers(out.begin(), out.begin() + 6) == Numbers(6));
  CHECK(lse[0] == -std::numeric_limits<double>::infinity());
  CHECK(lse[1] == -std::numeric_limits<double>::infinity());
  CHECK(std::isfinite(lse[2]));
}

TEST_CASE("large scores neither overflow nor vanish") {
  Bench bench(GENERATE(DType::f64, DType::f32));
  AttentionCase c = make_attention(bench, attention_shape(1, 300, 1, 1, 4), bench.dtype());
  c.shape.scale = 300;

  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);

  for (const double x : bench.read(c.out)) REQUIRE(std::abs(x) < 10);
  for (const double x : bench.read(c.lse)) REQUIRE(std::isfinite(x));
}

TEST_CASE("NaN in a key reaches the output of the queries that see it") {
  Bench bench(GENERATE(DType::f64, DType::f32));
  AttentionCase c = make_attention(bench, attention_shape(1, 10, 1, 1, 4), bench.dtype());
  bench->fill(c.k.slice_rows(6, 1), std::nan(""));

  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);

  const Numbers out = bench.read(c.out);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i >= 6 * 4));
}

TEST_CASE("16-bit attention is the f32 result rounded once") {
  Bench bench(GENERATE(DType::bf16, DType::f16));
  AttentionCase c = make_attention(bench, attention_shape(1, 100, 2, 2, 16), bench.dtype());
  const Tensor wide = bench.nan(DType::f32, c.out.shape), rounded = bench.nan(c.out.shape);

  bench->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);
  bench->attention(wide, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);
  bench->copy(rounded, wide);

  CHECK(difference(bench.read(c.out), bench.read(rounded)) == 0);
}

TEST_CASE("attention over split keys, merged, is attention over all of them") {
  Bench bench(every_compute_type(), 2);
  const std::int64_t rows = 130, cut = GENERATE(1, 64, 77);
  AttentionCase c = make_attention(bench, attention_shape(2, rows, 4, 2, 8), bench.acc());
  c.doc_start = GENERATE(0, 1) == 0 ? Tensor{} : documents(bench, c.shape, 50);
  AttentionCase part = c;
  part.out = bench.nan(bench.acc(), c.out.shape);
  part.lse = bench.nan(bench.acc(), c.lse.shape);
  AttentionShape first = c.shape, second = c.shape;
  first.k_rows = cut;
  second.k_rows = rows - cut;
  second.first_k = cut;
  const PlainAttention plain = plain_attention(bench, c);
  const auto skipped = [&](Tensor t) {  // both sequences' rows from `cut` on
    t.data += static_cast<std::size_t>(cut * t.pitch) * size_of(t.dtype);
    t.shape[0] -= cut;
    return t;
  };

  bench->attention(c.out, c.lse, c.q, c.k, c.v, c.doc_start, first);
  bench->attention(part.out, part.lse, c.q, skipped(c.k), skipped(c.v), c.doc_start, second);
  bench->attention_merge(c.out, c.lse, part.out, part.lse, c.shape);

  CHECK(difference(bench.read(c.out), plain.out) < rounding_of(bench.acc()));
  CHECK(difference(finite(bench.read(c.lse)), finite(plain.lse)) < rounding_of(bench.acc()));
}

TEST_CASE("merging with nothing changes nothing, and nothing with nothing is nothing") {
  Bench bench(DType::f64);
  const double infinity = std::numeric_limits<double>::infinity();
  AttentionShape s = attention_shape(1, 2, 1, 1, 2);
  const Tensor out = bench.of({2, 2}, {1, 2, 0, 0}), lse = bench.of({1, 2}, {0.5, -infinity});
  const Tensor none = bench.of({2, 2}, {0, 0, 0, 0}), no_lse = bench.of({1, 2}, {-infinity, -infinity});

  bench->attention_merge(out, lse, none, no_lse, s);
  bench->attention_merge(none, no_lse, out, lse, s);

  CHECK(bench.read(out) == Numbers{1, 2, 0, 0});
  CHECK(bench.read(lse) == Numbers{0.5, -infinity});
  CHECK(bench.read(none) == Numbers{1, 2, 0, 0});
  CHECK(bench.read(no_lse) == Numbers{0.5, -infinity});
}
