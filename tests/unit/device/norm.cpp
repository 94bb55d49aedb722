#include <cmath>

#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

constexpr double k_eps = 1e-5;

struct Expected {
  Numbers y, mean, rstd;
};

Expected plain_norm(const Numbers& x, const Numbers& gain, const Numbers& bias, NormKind kind) {
  const std::size_t C = gain.size();
  Expected e;
  for (std::size_t t = 0; t * C < x.size(); ++t) {
    double mean = 0, squares = 0;
    for (std::size_t c = 0; c < C && kind == NormKind::layer; ++c) mean += x[t * C + c] / static_cast<double>(C);
    for (std::size_t c = 0; c < C; ++c) squares += std::pow(x[t * C + c] - mean, 2) / static_cast<double>(C);
    const double rstd = 1 / std::sqrt(squares + k_eps);
    e.mean.push_back(mean);
    e.rstd.push_back(rstd);
    for (std::size_t c = 0; c < C; ++c) {
      e.y.push_back((x[t * C + c] - mean) * rstd * gain[c] + (bias.empty() ? 0 : bias[c]));
    }
  }
  return e;
}

struct NormCase {
  NormKind kind;
  bool has_bias;
};
NormCase every_norm() {
  return GENERATE(NormCase{NormKind::layer, true}, NormCase{NormKind::layer, false}, NormCase{NormKind::rms, false});
}

}  // namespace

TEST_CASE("norms agree with plain loops at odd widths") {
  Bench bench(every_compute_type(), 2);
  const auto [kind, has_bias] = every_norm();
  const std::int64_t C = GENERATE(1, 7, 130, 1500), T = 5;
  const Tensor x = bench.random({T, C}), gain = bench.random({C}), bias = has_bias ? bench.random({C}) : Tensor{};
  const Tensor y = bench.nan({T, C}), mean = kind == NormKind::layer ? bench.nan(bench.acc(), {T}) : Tensor{};
  const Tensor rstd = bench.nan(bench.acc(), {T});

  bench->norm(y, mean, rstd, x, gain, bias, kind, k_eps);

  const Expected e = plain_norm(bench.read(x), bench.read(gain), has_bias ? bench.read(bias) : Numbers{}, kind);
  const double tolerance = rounding_of(bench.dtype()), statistics = rounding_of(bench.acc());
  CHECK(difference(bench.read(y), e.y) < tolerance);
  CHECK(difference(bench.read(rstd), e.rstd) < statistics);
  if (mean) CHECK(difference(bench.read(mean), e.mean) < statistics);
}

TEST_CASE("layer norm is exact about a large mean") {
  Bench bench(DType::f32);
  const Tensor x = bench.of({1, 4}, {10001, 10002, 10003, 10004}), y = bench.nan({1, 4});
  const Tensor mean = bench.nan({1}), rstd = bench.nan({1});

  bench->norm(y, mean, rstd, x, bench.of({4}, {1, 1, 1, 1}), Tensor{}, NormKind::layer, 0);

  const double unit = std::sqrt(1.25);
  CHECK(difference(bench.read(y), {-1.5 / unit, -0.5 / unit, 0.5 / unit, 1.5 / unit}) < 1e-6);
}

TEST_CASE("the backward pass of a norm is its derivative and adds to dx") {
  Bench bench(DType::f64);
  const auto [kind, has_bias] = every_norm();
  const std::int64_t C = 7, T = 3;
  const Tensor x = bench.random({T, C}), gain = bench.random({C}), bias = has_bias ? bench.random({C}) : Tensor{};
  const Tensor y = bench.nan({T, C}), mean = kind == NormKind::layer ? bench.nan({T}) : Tensor{}, rstd = bench.nan({T});
  const Tensor dy = bench.random({T, C}), dx = bench.random({T, C}), dgain = bench.nan({C});
  const Tensor dbias = has_bias ? bench.nan({C}) : Tensor{};
  const Numbers before = bench.read(dx);
  const auto loss = [&, k = kind] {
    bench->norm(y, mean, rstd, x, gain, bias, k, k_eps);
    return weighted_sum(bench, y, dy);
  };
  loss();

  bench->norm_backward(dx, dgain, dbias, dy, x, mean, rstd, gain, kind, Into::replace);

  Numbers expected = finite_difference(bench, x, loss);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  CHECK(difference(bench.read(dx), expected) < k_gradient_tolerance);
  CHECK(difference(bench.read(dgain), finite_difference(bench, gain, loss)) < k_gradient_tolerance);
  if (has_bias) CHECK(difference(bench.read(dbias), finite_difference(bench, bias, loss)) < k_gradient_tolerance);
}

TEST_CASE("the backward pass of a norm in every type agrees with f64") {
  Bench bench(every_compute_type(), 2);
  const std::int64_t C = 150, T = 70;
  const Tensor x = bench.random({T, C}), gain = bench.random({C}), dy = bench.random({T, C}), dx = bench.random({T, C});
  const Tensor y = bench.nan({T, C}), mean = bench.nan(bench.acc(), {T}), rstd = bench.nan(bench.acc(), {T});
  const Tensor dgain = bench.of(bench.acc(), {C}, Numbers(C, 1)), dbias = bench.of(bench.acc(), {C}, Numbers(C, 2));
  Bench wide(DType::f64);
  const auto same = [&](Tensor t) { return wide.of(t.shape, bench.read(t)); };
  const Tensor x64 = same(x), gain64 = same(gain), dx64 = same(dx), mean64 = wide.nan({T}), rstd64 = wide.nan({T});
  const Tensor dgain64 = same(dgain), dbias64 = same(dbias);

  bench->norm(y, mean, rstd, x, gain, Tensor{}, NormKind::layer, k_eps);
  bench->norm_backward(dx, dgain, dbias, dy, x, mean, rstd, gain, NormKind::layer, Into::add);
  wide->norm(wide.nan({T, C}), mean64, rstd64, x64, gain64, Tensor{}, NormKind::layer, k_eps);
  wide->norm_backward(dx64, dgain64, dbias64, same(dy), x64, mean64, rstd64, gain64, NormKind::layer, Into::add);

  CHECK(difference(bench.read(dx), wide.read(dx64)) < rounding_of(bench.dtype()));
  CHECK(difference(bench.read(dgain), wide.read(dgain64)) < rounding_of(bench.acc()));
  CHECK(difference(bench.read(dbias), wide.read(dbias64)) < rounding_of(bench.acc()));
}

TEST_CASE("head norm is an rms norm of every head") {
  Bench bench(every_compute_type());
  const std::int64_t T = 3, H = 2, D = 5;
  const Tensor wide = bench.random({T, 3 * H * D}), x = wide.slice_columns(H * D, H * D), gain = bench.random({D});
  const Tensor y = bench.nan({T, 2 * H * D}), rstd = bench.nan(bench.acc(), {T, H});

  bench->head_norm(y.slice_columns(1, H * D), rstd, x, gain, k_eps);

  const Expected e = plain_norm(bench.read(x), bench.read(gain), {}, NormKind::rms);
  CHECK(difference(bench.read(y.slice_columns(1, H * D)), e.y) < rounding_of(bench.dtype()));
  CHECK(difference(bench.read(rstd), e.rstd) < rounding_of(bench.acc()));
}

TEST_CASE("the backward pass of head norm is its derivative, in place too") {
  Bench bench(DType::f64);
  const std::int64_t T = 3, H = 2, D = 5;
  const Tensor wide = bench.random({T, 2 * H * D}), x = wide.slice_columns(3, H * D), gain = bench.random({D});
  const Tensor y = bench.nan({T, H * D}), rstd = bench.nan({T, H}), dy = bench.random({T, H * D}),
               dx = bench.nan({T, H * D});
  const Tensor dgain = bench.nan({D}), dgain_again = bench.of({D}, Numbers(5, 1));
  const auto loss = [&] {
    bench->head_norm(y, rstd, x, gain, k_eps);
    return weighted_sum(bench, y, dy);
  };
  loss();

  bench->head_norm_backward(dx, dgain, dy, x, rstd, gain, Into::replace);

  CHECK(difference(bench.read(dx), finite_difference(bench, x, loss)) < k_gradient_tolerance);
  const Numbers gain_gradient = finite_difference(bench, gain, loss);
  CHECK(difference(bench.read(dgain), gain_gradient) < k_gradient_tolerance);
  bench->head_norm_backward(dy, dgain_again, dy, x, rstd, gain, Into::add);
  CHECK(difference(bench.read(dy), bench.read(dx)) == 0);
  Numbers sum = gain_gradient;
  for (double& value : sum) value += 1;
  CHECK(difference(bench.read(dgain_again), sum) < k_gradient_tolerance);
}

TEST_CASE("the fused sum and norm is its parts") {
  Bench bench(every_compute_type());
  const std::int64_t T = 4, C = 33;
  const Tensor x = bench.random({T, C}), residual = bench.random({T, C}), x_bias = bench.random({C}),
               gain = bench.random({C});
  const Tensor rows = bench.rows({3, 4, 5, 6}), mean = bench.nan(bench.acc(), {T}), rstd = bench.nan(bench.acc(), {T});
  const Tensor sum = bench.nan({T, C}), y = bench.nan({T, C}), sum_parts = bench.nan({T, C}),
               y_parts = bench.nan({T, C});
  const RandomKey key{1, 2, 3};

  bench->add_norm(y, mean, rstd, sum, x, x_bias, residual, rows, 0.2, key, gain, gain, NormKind::layer, k_eps);
  bench->dropout_add(sum_parts, x, x_bias, residual, rows, 0.2, key);
  bench->norm(y_parts, mean, rstd, sum_parts, gain, gain, NormKind::layer, k_eps);

  CHECK(difference(bench.read(sum), bench.read(sum_parts)) == 0);
  CHECK(difference(bench.read(y), bench.read(y_parts)) == 0);
}
