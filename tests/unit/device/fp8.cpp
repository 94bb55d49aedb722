// FP8 on the CPU: rows, the transposed copy and the products, from the definitions.
#include "trireme/base/fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench.h"

using namespace trireme;

namespace {

double element(const Tensor& q, const Tensor& scale, std::int64_t r, std::int64_t c) {
  const float factor = scale.ptr<float>()[scale.count() == 1 ? 0 : r];
  return widen_fp8(q.ptr<std::uint8_t>()[r * q.pitch + c], q.dtype) * factor;
}

}  // namespace

TEST_CASE("a row is quantised with the power of two that its largest element needs") {
  Bench bench(DType::bf16);
  const Tensor x = bench.of({3, 4}, {1, -3, 0.5, 500, 0, 0, 0, 0, 1e-3, 2e-3, -4e-3, 0.015625});
  Arena arena(bench.backend(), "fp8", 1 << 16);
  const Tensor q = arena.take(DType::e4m3, {3, 4}), scale = arena.take(DType::f32, {3});

  bench->quantize_rows(q, scale, x);

  CHECK(scale.ptr<float>()[0] == 2.0F);
  CHECK(element(q, scale, 0, 3) == 512);  // 250 rounds to 256: steps of 16 there
  CHECK(element(q, scale, 0, 1) == -3);
  CHECK(element(q, scale, 1, 2) == 0);
  CHECK(element(q, scale, 2, 3) == 0.015625);
}

TEST_CASE("a row with a NaN or an infinity becomes NaN and leaves the others alone") {
  Bench bench(DType::bf16);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = bench.of({3, 2}, {1, inf, 1, 2, nan, 3});
  Arena arena(bench.backend(), "fp8", 1 << 16);
  const Tensor q = arena.take(DType::e5m2, {3, 2}), scale = arena.take(DType::f32, {3});

  bench->quantize_rows(q, scale, x);

  CHECK(std::isnan(element(q, scale, 0, 0)));
  CHECK(element(q, scale, 1, 1) == 2);
  CHECK(std::isnan(element(q, scale, 2, 1)));
}

TEST_CASE("the transposed copy holds the same values with one scale, but for subnormals") {
  Bench bench(DType::bf16);
  Arena arena(bench.backend(), "fp8", 1 << 20);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    const Tensor x = bench.random({37, 21});
    for (std::int64_t c = 0; c < 21; ++c)
      x.ptr<Bf16>()[3 * 21 + c] = Bf16(static_cast<float>(x.ptr<Bf16>()[c]) * 1e-3F);
    const Tensor q = arena.take(format, {37, 21}), scale = arena.take(DType::f32, {37});
    const Tensor turned = arena.take(format, {21, 37}), one = arena.take(DType::f32, {2});

    bench->quantize_rows(q, scale, x);
    bench->transpose_quantized(turned, one, q, scale);

    float largest = 0;
    for (std::int64_t r = 0; r < 37; ++r) largest = std::max(largest, scale.ptr<float>()[r]);
    CHECK(one.ptr<float>()[0] == largest);
    CHECK(one.ptr<float>()[1] == largest);
    const Tensor first = one.slice_rows(0, 1);
    const double last_bit = largest * std::ldexp(1.0, format == DType::e4m3 ? -9 : -16);
    for (std::int64_t r = 0; r < 37; ++r) {
      for (std::int64_t c = 0; c < 21; ++c) {
        const double before = element(q, scale, r, c), after = element(turned, first, c, r);
        if (std::abs(before) >= 8 * last_bit) CHECK(after == before);
        CHECK(std::abs(after - before) <= 0.5 * last_bit);
      }
    }
  }
}

TEST_CASE("a scaled product is the product of the values, with bias and addend, rounded once") {
  Bench bench(DType::bf16, 2);
  Arena arena(bench.backend(), "fp8", 1 << 20);
  const std::int64_t M = 19, N = 33, K = 48;
  const Tensor a = arena.take(DType::e5m2, {M, K}), a_scale = arena.take(DType::f32, {M});
  const Tensor b = arena.take(DType::e4m3, {N, K}), b_scale = arena.take(DType::f32, {N});
  bench->quantize_rows(a, a_scale, bench.random({M, K}));
  bench->quantize_rows(b, b_scale, bench.random({N, K}));
  const Tensor bias = bench.random({N}), addend = bench.random({M, N});
  const Tensor d = bench.nan({M, N}), wide = bench.random(DType::f32, {M, N});
  const Numbers before = bench.read(wide), bias_read = bench.read(bias), addend_read = bench.read(addend);

  bench->matmul_scaled(d, a, a_scale, b, b_scale, bias, addend, Accumulation::fast);
  bench->matmul_scaled(wide, a, a_scale, b, b_scale, Tensor{}, wide, Accumulation::exact);

  const Numbers narrow = bench.read(d), summed = bench.read(wide);
  for (std::int64_t m = 0; m < M; ++m) {
    for (std::int64_t n = 0; n < N; ++n) {
      double product = 0;
      for (std::int64_t k = 0; k < K; ++k) product += element(a, a_scale, m, k) * element(b, b_scale, n, k);
      const auto at = static_cast<std::size_t>(m * N + n);
      CHECK(summed[at] == Approx(before[at] + product).margin(1e-4));
      const double expected = product + bias_read[static_cast<std::size_t>(n)] + addend_read[at];
      CHECK(narrow[at] == Approx(expected).epsilon(0.005).margin(1e-3));
    }
  }
}
