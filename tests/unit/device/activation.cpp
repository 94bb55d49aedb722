#include <cmath>

#include "bench.h"
#include "finite_difference.h"

using namespace trireme;

namespace {

const std::vector<Activation> k_kinds{Activation::gelu_tanh, Activation::gelu_erf, Activation::relu_squared,
                                      Activation::swiglu};

double plain(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::relu_squared:
      return x > 0 ? x * x : 0;
    case Activation::swiglu:
      return x / (1 + std::exp(-x)) * up;
  }
  return 0;
}

std::int64_t inputs_of(Activation kind, std::int64_t F) {
  return kind == Activation::swiglu ? 2 * F : F;
}

}  // namespace

TEST_CASE("activations agree with their definitions") {
  Bench bench(every_compute_type(), 2);
  const Activation kind = GENERATE(from_range(k_kinds));
  const std::int64_t T = 3, F = 1031, inputs = inputs_of(kind, F);
  const Tensor x = bench.random({T, inputs}), y = bench.nan({T, F});
  bench->scale(x, 3);

  bench->activation(y, x, kind);

  const Numbers numbers = bench.read(x);
  Numbers expected;
  for (std::int64_t i = 0; i < T * F; ++i) {
    const auto at = static_cast<std::size_t>(i / F * inputs + i % F);
    expected.push_back(plain(kind, numbers[at], kind == Activation::swiglu ? numbers[at + F] : 0));
  }
  CHECK(difference(bench.read(y), expected) < rounding_of(bench.dtype()));
}

TEST_CASE("gelu keeps its relative precision in both tails") {
  Bench bench(DType::f64);
  const Activation kind = GENERATE(Activation::gelu_tanh, Activation::gelu_erf);
  const Tensor x = bench.of({1, 6}, {-5, -3, -1e-8, 1e-8, 4, 30}), y = bench.nan({1, 6});

  bench->activation(y, x, kind);

  const Numbers found = bench.read(y);
  for (std::size_t i = 0; i < 6; ++i) {
    // the plain tanh form cancels on the left: there it is only good to 1e-10
    CHECK(found[i] == Approx(plain(kind, bench.read(x)[i], 0)).epsilon(kind == Activation::gelu_tanh ? 1e-9 : 1e-13));
  }
}

TEST_CASE("activations far from zero are finite and NaN is passed on") {
  Bench bench(every_compute_type());
  const Activation kind = GENERATE(Activation::gelu_tanh, Activation::gelu_erf, Activation::relu_squared);
  const double nan = std::nan("");
  const Tensor x = bench.of({1, 4}, {-128, 128, nan, 0}), y = bench.nan({1, 4}), dx = bench.nan({1, 4});

  bench->activation(y, x, kind);
  bench->activation_backward(dx, bench.of({1, 4}, {1, 1, 1, 1}), x, kind);

  CHECK(bench.read(y)[0] == 0);
  CHECK(bench.read(y)[1] == (kind == Activation::relu_squared ? 16384 : 128));
  CHECK(std::isnan(bench.read(y)[2]));
  CHECK(bench.read(dx)[0] == 0);
  CHECK(bench.read(dx)[1] == (kind == Activation::relu_squared ? 256 : 1));
  CHECK(std::isnan(bench.read(dx)[2]));
}

TEST_CASE("the backward pass of an activation is its derivative") {
  Bench bench(DType::f64);
  const Activation kind = GENERATE(from_range(k_kinds));
  const std::int64_t T = 3, F = 6, inputs = inputs_of(kind, F);
  const Tensor x = bench.random({T, inputs}), y = bench.nan({T, F}), dy = bench.random({T, F}),
               dx = bench.nan({T, inputs});
  const Tensor db = bench.nan({inputs}), fused = bench.nan({T, inputs});
  const auto loss = [&, k = kind] {
    bench->activation(y, x, k);
    return weighted_sum(bench, y, dy);
  };

  bench->activation_backward(dx, dy, x, kind);
  bench->activation_backward_bias(fused, db, dy, x, kind, Into::replace);

  const Numbers gradient = finite_difference(bench, x, loss);
  // relu^2 has a kink in its derivative, where differences are of lower order
  CHECK(difference(bench.read(dx), gradient) < (kind == Activation::relu_squared ? 1e-3 : k_gradient_tolerance));
  CHECK(difference(bench.read(fused), bench.read(dx)) == 0);
  Numbers sums(static_cast<std::size_t>(inputs));
  const Numbers dx_read = bench.read(dx);
  for (std::size_t i = 0; i < dx_read.size(); ++i) sums[i % sums.size()] += dx_read[i];
  CHECK(difference(bench.read(db), sums) < 1e-13);
}

TEST_CASE("derivatives in every type agree with f64, and dx may be x") {
  Bench bench(every_compute_type(), 2);
  const Activation kind = GENERATE(from_range(k_kinds));
  const std::int64_t T = 4, F = 700, inputs = inputs_of(kind, F);
  const Tensor x = bench.random({T, inputs}), dy = bench.random({T, F}), dx = bench.nan({T, inputs});
  Bench wide(DType::f64);
  const Tensor dx64 = wide.nan({T, inputs});

  bench->activation_backward(dx, dy, x, kind);
  wide->activation_backward(dx64, wide.of({T, F}, bench.read(dy)), wide.of({T, inputs}, bench.read(x)), kind);
  bench->activation_backward(x, dy, x, kind);

  CHECK(difference(bench.read(dx), wide.read(dx64)) < rounding_of(bench.dtype()));
  CHECK(difference(bench.read(x), bench.read(dx)) == 0);
}

TEST_CASE("a product with its activation keeps what the backward pass needs") {
  Bench bench(every_compute_type());
  const Activation kind = GENERATE(from_range(k_kinds));
  const std::int64_t T = 5, C = 9, F = 12, inputs = inputs_of(kind, F);
  const Tensor x = bench.random({T, C}), w = bench.random({inputs, C}), bias = bench.random({inputs});
  const Tensor y = bench.nan({T, F}), before = bench.nan({T, inputs}), y_parts = bench.nan({T, F}),
               before_parts = bench.nan({T, inputs});

  bench->matmul_activation(y, before, x, w, bias, kind);
  bench->matmul(before_parts, x, w, bias);
  bench->activation(y_parts, before_parts, kind);

  CHECK(difference(bench.read(before), bench.read(before_parts)) == 0);
  CHECK(difference(bench.read(y), bench.read(y_parts)) == 0);
}
