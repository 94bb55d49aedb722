#include <bit>
#include <cmath>

#include "bench.h"

using namespace trireme;

namespace {

AdamWStep make_step() {
  AdamWStep step;
  step.lr = 0.01;
  step.weight_decay = 0.1;
  step.t = 3;
  step.rounding = {5, 6, 7};
  step.first_index = 1000;
  return step;
}

// Algorithm 2 of Loshchilov & Hutter in double.
void plain_adamw(const AdamWStep& s, double norm_sq, Numbers& p, Numbers& m, Numbers& v, const Numbers& grad) {
  const double norm = s.grad_scale * std::sqrt(norm_sq), clip = s.clip > 0 ? std::min(1.0, s.clip / (norm + 1e-6)) : 1;
  const double t = static_cast<double>(s.t);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = grad[i] * s.grad_scale * clip;
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    const double direction = m[i] / (1 - std::pow(s.beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(s.beta2, t))) + s.eps);
    p[i] -= s.lr * (direction + s.weight_decay * p[i]);
  }
}

// Positive numbers around 0.01.
Tensor second_moment(Bench& bench, DType dtype, std::int64_t n) {
  const Tensor v = bench.random(dtype, {n});
  Numbers numbers = bench.read(v);
  for (double& x : numbers) x = 0.01 * std::abs(x) + 1e-4;
  bench.write(v, numbers);
  return v;
}

AdamWTensors make_tensors(Bench& bench, std::int64_t n, DType moments, DType gradient) {
  AdamWTensors a;
  a.param = bench.random({n});
  a.master = a.param;
  a.m = bench.random(moments, {n});
  a.v = second_moment(bench, moments, n);
  a.grad = bench.random(gradient, {n});
  return a;
}

std::vector<std::uint16_t> words_of(Bench& bench, Tensor t) {
  std::vector<std::uint16_t> words(static_cast<std::size_t>(t.count()));
  bench->to_host(words.data(), t);
  return words;
}

}  // namespace

TEST_CASE("AdamW agrees with the published algorithm") {
  const DType dtype = GENERATE(DType::f64, DType::f32);
  Bench bench(dtype, 2);
  const AdamWTensors a = make_tensors(bench, 40001, dtype, dtype);
  AdamWStep step = make_step();
  step.grad_scale = 0.5;
  step.clip = GENERATE(0.0, 1.0, 1e6);
  const double norm_sq = 9;
  Numbers p = bench.read(a.param), m = bench.read(a.m), v = bench.read(a.v);
  plain_adamw(step, norm_sq, p, m, v, bench.read(a.grad));

  bench->adamw(a, step, bench.of(DType::f64, {1}, {norm_sq}));

  CHECK(difference(bench.read(a.param), p) < rounding_of(dtype));
  CHECK(difference(bench.read(a.m), m) < rounding_of(dtype));
  CHECK(difference(bench.read(a.v), v) < rounding_of(dtype));
}

TEST_CASE("a step with a norm that is not finite writes nothing") {
  Bench bench(DType::f32);
  const AdamWTensors a = make_tensors(bench, 100, DType::f32, DType::f32);
  const Numbers p = bench.read(a.param), m = bench.read(a.m), v = bench.read(a.v);
  const double norm_sq = GENERATE(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());

  bench->adamw(a, make_step(), bench.of(DType::f64, {1}, {norm_sq}));

  CHECK(bench.read(a.param) == p);
  CHECK(bench.read(a.m) == m);
  CHECK(bench.read(a.v) == v);
}

TEST_CASE("a 16-bit weight is its f32 master rounded") {
  Bench bench(GENERATE(DType::bf16, DType::f16));
  AdamWTensors a = make_tensors(bench, 3000, DType::f32, DType::f32);
  a.master = bench.random(DType::f32, {3000});
  const Tensor rounded = bench.nan({3000});
  Numbers p = bench.read(a.master), m = bench.read(a.m), v = bench.read(a.v);
  plain_adamw(make_step(), 1, p, m, v, bench.read(a.grad));

  bench->adamw(a, make_step(), bench.of(DType::f64, {1}, {1}));
  bench->copy(rounded, a.master);

  CHECK(difference(bench.read(a.master), p) < rounding_of(DType::f32));
  CHECK(difference(bench.read(a.param), bench.read(rounded)) == 0);
}

TEST_CASE("bf16 weights with remainders hold the f32 master bit for bit") {
  Bench bench(DType::bf16);
  constexpr std::int64_t n = 70000;
  AdamWTensors wide = make_tensors(bench, n, DType::f32, DType::f32), split = wide;
  wide.master = bench.nan(DType::f32, {n});
  bench->copy(wide.master, wide.param);
  split.param = bench.nan({n});
  bench->copy(split.param, wide.param);
  split.master = bench.integers(DType::u16, std::vector<std::uint16_t>(n));
  split.m = bench.nan(DType::f32, {n});
  split.v = bench.nan(DType::f32, {n});
  bench->copy(split.m, wide.m);
  bench->copy(split.v, wide.v);
  const Tensor norm_sq = bench.of(DType::f64, {1}, {1});
  AdamWStep step = make_step();

  for (step.t = 1; step.t <= 5; ++step.t) {
    bench->adamw(wide, step, norm_sq);
    bench->adamw(split, step, norm_sq);
  }

  const std::vector<std::uint16_t> high = words_of(bench, split.param), low = words_of(bench, split.master);
  const std::vector<std::uint16_t> nearest = words_of(bench, wide.param);
  int wrong = 0, not_nearest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto rest = static_cast<std::uint32_t>(static_cast<std::int16_t>(low[i]));
    const std::uint32_t master = (static_cast<std::uint32_t>(high[i]) << 16) + rest;
    wrong += master != std::bit_cast<std::uint32_t>(wide.master.ptr<float>()[i]);
    not_nearest += high[i] != nearest[i] && low[i] != 0x8000;  // ties go away from zero
  }
  CHECK(wrong == 0);
  CHECK(not_nearest == 0);
}

TEST_CASE("bf16 moments are rounded stochastically, without bias and by the element's own words") {
  Bench bench(DType::f32);
  constexpr std::int64_t n = 65536;
  AdamWTensors a = make_tensors(bench, n, DType::bf16, DType::f32);
  bench->fill(a.m, 1);
  bench->fill(a.v, 1);
  bench->fill(a.grad, 1.5);  // m = 0.9 + 0.15 = 1.05; bf16 neighbours 1.046875 and 1.0546875
  AdamWTensors part = a;
  part.param = bench.nan({100});
  part.master = part.param;
  part.m = bench.of(DType::bf16, {100}, Numbers(100, 1));
  part.v = bench.of(DType::bf16, {100}, Numbers(100, 1));
  part.grad = a.grad.slice_rows(0, 100);
  AdamWStep step = make_step();

  bench->adamw(a, step, bench.of(DType::f64, {1}, {1}));
  step.first_index += 501;  // inside a group of elements that share a draw
  bench->adamw(part, step, bench.of(DType::f64, {1}, {1}));

  double sum = 0;
  const Numbers m = bench.read(a.m);
  for (const double x : m) {
    REQUIRE((x == 1.046875 || x == 1.0546875));
    sum += x;
  }
  const double share = (1.05 - 1.046875) / 0.0078125;
  CHECK(std::abs(sum / n - 1.05) < 5 * 0.0078125 * std::sqrt(share * (1 - share) / n));
  CHECK(bench.read(part.m) == Numbers(m.begin() + 501, m.begin() + 601));
  CHECK(bench.read(part.m) != bench.read(part.v));
}

TEST_CASE("bf16 weights without a master are rounded stochastically") {
  Bench bench(DType::bf16);
  constexpr std::int64_t n = 65536;
  AdamWTensors a = make_tensors(bench, n, DType::f32, DType::f32);
  a.master = Tensor{};
  bench->fill(a.param, 1);
  bench->fill(a.m, 0);
  bench->fill(a.grad, 0);
  AdamWStep step = make_step();
  step.lr = 0.001;
  step.weight_decay = 1;  // p = 0.999 between 0.99609375 and 1

  bench->adamw(a, step, bench.of(DType::f64, {1}, {0}));

  double sum = 0;
  for (const double x : bench.read(a.param)) sum += x;
  const double share = 0.001 / 0.00390625;
  CHECK(std::abs(sum / n - 0.999) < 5 * 0.00390625 * std::sqrt(share * (1 - share) / n) + 1e-7);
}

TEST_CASE("moments and gradients of every type are read and written") {
  Bench bench(DType::bf16);
  const DType moments = GENERATE(DType::f32, DType::bf16), gradient = GENERATE(DType::f32, DType::bf16);
  AdamWTensors a = make_tensors(bench, 2000, moments, gradient);
  a.master = bench.random(DType::f32, {2000});
  Numbers p = bench.read(a.master), m = bench.read(a.m), v = bench.read(a.v);
  plain_adamw(make_step(), 1, p, m, v, bench.read(a.grad));

  bench->adamw(a, make_step(), bench.of(DType::f64, {1}, {1}));

  CHECK(difference(bench.read(a.master), p) < rounding_of(DType::f32));
  CHECK(difference(bench.read(a.m), m) < rounding_of(moments));
  CHECK(difference(bench.read(a.v), v) < rounding_of(moments));
}

TEST_CASE("sums add to what is there") {
  Bench bench(every_compute_type(), 2);
  const Tensor x = bench.random({501, 100}), out = bench.of(DType::f64, {1}, {10}),
               squares = bench.of(DType::f64, {1}, {20});
  double sum = 10, square_sum = 20;
  for (const double value : bench.read(x)) {
    sum += value;
    square_sum += value * value;
  }

  bench->sum(out, x);
  bench->sum_of_squares(squares, x);

  CHECK(bench.read(out)[0] == Approx(sum).epsilon(1e-12));
  CHECK(bench.read(squares)[0] == Approx(square_sum).epsilon(1e-12));
}

TEST_CASE("a sum of squares sees infinity and NaN") {
  Bench bench(every_compute_type());
  const Tensor x = bench.random({1000}), out = bench.of(DType::f64, {1}, {0});
  bench->fill(x.slice_rows(777, 1), GENERATE(std::numeric_limits<double>::infinity(), std::nan("")));

  bench->sum_of_squares(out, x);

  CHECK_FALSE(std::isfinite(bench.read(out)[0]));
}
