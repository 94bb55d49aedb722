#include <cmath>

#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

struct Head {
  Tensor logits, target, max, sum, picked, loss;
};

Head make_head(Bench& bench, std::int64_t T, std::int64_t V, const std::vector<std::int32_t>& targets) {
  const auto per_row = [&] { return bench.nan(bench.acc(), {T}); };
  return {bench.random({T, V}), bench.ids(targets), per_row(), per_row(), per_row(), per_row()};
}

void stats(Bench& bench, const Head& h, const CrossEntropy& ce) {
  bench->softmax_stats(h.max, h.sum, h.picked, h.logits, h.target, ce);
}

void finish(Bench& bench, const Head& h, const CrossEntropy& ce, bool backward) {
  bench->cross_entropy(h.loss, h.logits, h.target, h.max, h.sum, h.picked, ce, backward);
}

Numbers row_of(const Numbers& m, std::size_t t, std::size_t V, std::size_t n) {
  return Numbers(m.begin() + static_cast<std::ptrdiff_t>(t * V), m.begin() + static_cast<std::ptrdiff_t>(t * V + n));
}

double lse_of(const Numbers& row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return std::log(sum);
}

}  // namespace

TEST_CASE("loss and gradient by hand: two equal logits") {
  Bench bench(every_compute_type());
  Head h = make_head(bench, 1, 3, {1});
  bench.write(h.logits, {0, 0, 50});
  const CrossEntropy ce{0, 2, 0.5, 0};

  stats(bench, h, ce);
  finish(bench, h, ce, true);

  CHECK(bench.read(h.loss)[0] == Approx(std::log(2.0)));
  CHECK(difference(bench.read(h.logits), {0.25, -0.25, 0}) < 1e-6);
}

TEST_CASE("losses and gradients agree with the definition, padding and masks included") {
  Bench bench(every_compute_type(), 2);
  const std::int64_t V = GENERATE(5, 2500), n_valid = V - 2;
  const Head h = make_head(bench, 4, V, {0, -1, static_cast<std::int32_t>(n_valid - 1), 2});
  const CrossEntropy ce{0, n_valid, 0.125, GENERATE(0.0, 0.01)};
  const Numbers logits = bench.read(h.logits);

  stats(bench, h, ce);
  finish(bench, h, ce, true);

  Numbers losses(4), gradient(logits.size());
  const std::vector<std::int64_t> targets{0, -1, n_valid - 1, 2};
  for (std::size_t t = 0; t < 4; ++t) {
    if (targets[t] < 0) continue;
    const Numbers row = row_of(logits, t, static_cast<std::size_t>(V), static_cast<std::size_t>(n_valid));
    const double lse = lse_of(row);
    losses[t] = lse - row[static_cast<std::size_t>(targets[t])];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double hit = static_cast<std::int64_t>(i) == targets[t] ? 1 : 0;
      gradient[t * static_cast<std::size_t>(V) + i] =
          0.125 * (std::exp(row[i] - lse) * (1 + 2 * ce.z_loss * lse) - hit);
    }
  }
  CHECK(difference(bench.read(h.loss), losses) < rounding_of(bench.acc()));
  CHECK(difference(bench.read(h.logits), gradient) < rounding_of(bench.dtype()));
}

TEST_CASE("the gradient of cross entropy is its derivative, z loss included") {
  Bench bench(DType::f64);
  const Head h = make_head(bench, 3, 6, {5, -1, 0});
  const CrossEntropy ce{0, 6, 0.3, 0.02};
  const auto loss = [&] {
    stats(bench, h, ce);
    finish(bench, h, ce, false);
    double total = 0;
    const Numbers losses = bench.read(h.loss), logits = bench.read(h.logits);
    for (std::size_t t = 0; t < 3; ++t) {
      const double lse = lse_of(row_of(logits, t, 6, 6));
      total += t == 1 ? 0 : 0.3 * (losses[t] + 0.02 * lse * lse);
    }
    return total;
  };
  const Numbers expected = finite_difference(bench, h.logits, loss);

  loss();
  finish(bench, h, ce, true);

  CHECK(difference(bench.read(h.logits), expected) < k_gradient_tolerance);
}

TEST_CASE("without backward the logits stay") {
  Bench bench(DType::f32);
  const Head h = make_head(bench, 2, 9, {3, 4});
  const Numbers before = bench.read(h.logits);

  stats(bench, h, {0, 9, 1, 0});
  finish(bench, h, {0, 9, 1, 0}, false);

  CHECK(bench.read(h.logits) == before);
}

TEST_CASE("a vocabulary cut over ranks gives the loss and gradient of the whole") {
  Bench bench(DType::f64);
  constexpr std::int64_t T = 3, V = 10, cut = 6;
  const std::vector<std::int32_t> targets{7, 2, -1};
  const Head whole = make_head(bench, T, V, targets);
  Head left = make_head(bench, T, cut, targets), right = make_head(bench, T, V - cut, targets);
  bench->copy(left.logits, whole.logits.slice_columns(0, cut));
  bench->copy(right.logits, whole.logits.slice_columns(cut, V - cut));
  const CrossEntropy all{0, 9, 0.5, 0.01}, ce_left{0, cut, 0.5, 0.01}, ce_right{cut, 3, 0.5, 0.01};

  stats(bench, whole, all);
  finish(bench, whole, all, true);
  stats(bench, left, ce_left);
  stats(bench, right, ce_right);
  const Numbers a = bench.read(left.max), b = bench.read(right.max);
  const Tensor max = bench.of({T}, {std::max(a[0], b[0]), std::max(a[1], b[1]), std::max(a[2], b[2])});
  bench->softmax_rescale(left.sum, left.max, max);
  bench->softmax_rescale(right.sum, right.max, max);
  bench->add(left.sum, right.sum);
  bench->add(left.picked, right.picked);
  for (Head* h : {&left, &right}) {
    h->max = max;
    h->sum = left.sum;
    h->picked = left.picked;
  }
  finish(bench, left, ce_left, true);
  finish(bench, right, ce_right, true);

  CHECK(difference(bench.read(left.loss), bench.read(whole.loss)) < 1e-14);
  CHECK(difference(bench.read(right.loss), bench.read(whole.loss)) < 1e-14);
  CHECK(difference(bench.read(left.logits), bench.read(whole.logits.slice_columns(0, cut))) < 1e-14);
  CHECK(difference(bench.read(right.logits), bench.read(whole.logits.slice_columns(cut, V - cut))) < 1e-14);
}

TEST_CASE("a rank that holds only padding adds nothing") {
  Bench bench(every_compute_type());
  const Head h = make_head(bench, 1, 4, {0});
  const Tensor max = bench.of(bench.acc(), {1}, {2});

  stats(bench, h, {100, 0, 1, 0});
  bench->softmax_rescale(h.sum, h.max, max);

  CHECK(bench.read(h.sum) == Numbers{0});
  CHECK(bench.read(h.picked) == Numbers{0});
}

TEST_CASE("NaN logits give NaN losses") {
  Bench bench(every_compute_type());
  const Head h = make_head(bench, 1, 40, {3});
  bench->fill(h.logits.slice_columns(17, 1), std::nan(""));

  stats(bench, h, {0, 40, 1, 0});
  finish(bench, h, {0, 40, 1, 0}, false);

  CHECK(std::isnan(bench.read(h.loss)[0]));
}
