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

namespace {

double value_at(const Tensor& q, const Tensor& scale, std::int64_t r, std::int64_t c) {
  const Scaling scaling = scaling_of(q, scale);
  const std::int64_t place = scaling == Scaling::tensor  ? 0
                             : scaling == Scaling::row   ? r
                             : scaling == Scaling::block ? c / 128 * q.rows() + r
                                                         : r / 128 * scale.columns() + c / 128;
  return widen_fp8(q.ptr<std::uint8_t>()[r * q.pitch + c], q.dtype) * scale.ptr<float>()[place];
}

// Values whose sizes differ by powers of two from block to block and from row to row.
Tensor uneven(Bench& bench, std::int64_t rows, std::int64_t columns) {
  const Tensor x = bench.random({rows, columns});
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const int power = static_cast<int>((i % columns / 128 * 5 + i / columns * 3) % 11) - 6;
    x.ptr<Bf16>()[i] = Bf16(std::ldexp(static_cast<float>(x.ptr<Bf16>()[i]), power));
  }
  return x;
}

}  // namespace

TEST_CASE("a block or square is quantised with the scale that its own largest element needs") {
  const Scaling scaling = GENERATE(Scaling::block, Scaling::square);
  const Scales scales = GENERATE(Scales::powers_of_two, Scales::any);
  const std::int64_t R = 144, C = 304, height = scaling == Scaling::square ? 128 : 1;
  Bench bench(DType::bf16, 2);
  const Tensor x = uneven(bench, R, C);
  Arena arena(bench.backend(), "fp8", 1 << 20);
  const Tensor q = arena.take(DType::e4m3, {R, C}), scale = arena.take(DType::f32, scale_shape(scaling, R, C));

  bench->quantize_blocks(q, scale, x, scales);

  const Numbers before = bench.read(x);
  for (std::int64_t r = 0; r < R; r += height) {
    for (std::int64_t c = 0; c < C; c += 128) {
      float largest = 0;
      for (std::int64_t i = r; i < std::min(R, r + height); ++i) {
        for (std::int64_t j = c; j < std::min(C, c + 128); ++j)
          largest = std::max(largest, std::abs(static_cast<float>(before[static_cast<std::size_t>(i * C + j)])));
      }
      const float step = fp8_scale(largest, DType::e4m3, scales);
      for (std::int64_t i = r; i < std::min(R, r + height); ++i) {
        for (std::int64_t j = c; j < std::min(C, c + 128); ++j) {
          const double exact = before[static_cast<std::size_t>(i * C + j)];
          const double bound =
              std::max(std::abs(exact) / 16, std::ldexp(static_cast<double>(step), -10));  // half a last bit
          CHECK(std::abs(value_at(q, scale, i, j) - exact) <= 1.0001 * bound);
        }
      }
    }
  }
}

TEST_CASE("one scale for a matrix: what it needs, or what it is given") {
  Bench bench(DType::bf16);
  const Tensor x = bench.of({2, 3}, {1, -3, 0.5, 900, 0, 0.001});
  Arena arena(bench.backend(), "fp8", 1 << 16);
  const Tensor q = arena.take(DType::e4m3, {2, 3}), scale = arena.take(DType::f32, {1}),
               largest = arena.take(DType::f32, {1});

  bench->largest_magnitude(largest, x);
  bench->scale_for(scale, largest, DType::e4m3, Scales::powers_of_two);
  bench->quantize(q, x, scale);

  CHECK(largest.ptr<float>()[0] == 900);
  CHECK(scale.ptr<float>()[0] == 4);
  CHECK(value_at(q, scale, 0, 1) == -3);
  CHECK(value_at(q, scale, 1, 0) == 896);
  CHECK(value_at(q, scale, 1, 2) == 0);  // below the smallest step of 2^-7

  scale.ptr<float>()[0] = 1;
  bench->quantize(q, x, scale);
  CHECK(value_at(q, scale, 1, 0) == 448);  // the largest there is
}

TEST_CASE("turning blocks, squares and tensors keeps their values, but for subnormals") {
  const Scaling scaling = GENERATE(Scaling::tensor, Scaling::block, Scaling::square);
  const std::int64_t R = 144, C = 304;
  Bench bench(DType::bf16, 2);
  const Tensor x = uneven(bench, R, C);
  Arena arena(bench.backend(), "fp8", 1 << 20);
  const Tensor q = arena.take(DType::e5m2, {R, C}), scale = arena.take(DType::f32, scale_shape(scaling, R, C));
  const Tensor turned = arena.take(DType::e5m2, {C, R}), after = arena.take(DType::f32, scale_shape(scaling, C, R));
  if (scaling == Scaling::tensor) {
    scale.ptr<float>()[0] = 0.125;
    bench->quantize(q, x, scale);
  } else {
    bench->quantize_blocks(q, scale, x, Scales::powers_of_two);
  }

  bench->transpose_quantized(turned, after, q, scale);

  for (std::int64_t r = 0; r < R; ++r) {
    for (std::int64_t c = 0; c < C; ++c) {
      const double value = value_at(q, scale, r, c), found = value_at(turned, after, c, r);
      if (scaling != Scaling::block) {
        CHECK(found == value);
        continue;
      }
      const double last_bit = std::ldexp(static_cast<double>(after.ptr<float>()[r / 128 * C + c]), -16);
      if (std::abs(value) >= 4 * last_bit) CHECK(found == value);
      CHECK(std::abs(found - value) <= 0.5 * last_bit);
    }
  }
}

TEST_CASE("a product of blocks with squares and of blocks with blocks is that of the values") {
  const Scaling of_b = GENERATE(Scaling::block, Scaling::square);
  const std::int64_t M = 48, N = 144, K = 272;
  Bench bench(DType::bf16, 2);
  Arena arena(bench.backend(), "fp8", 1 << 20);
  const Tensor a = arena.take(DType::e5m2, {M, K}), a_scale = arena.take(DType::f32, scale_shape(Scaling::block, M, K));
  const Tensor b = arena.take(DType::e4m3, {N, K}), b_scale = arena.take(DType::f32, scale_shape(of_b, N, K));
  bench->quantize_blocks(a, a_scale, uneven(bench, M, K), Scales::powers_of_two);
  bench->quantize_blocks(b, b_scale, uneven(bench, N, K), Scales::any);
  const Tensor d = bench.random(DType::f32, {M, N});

  bench->matmul_scaled(d, a, a_scale, b, b_scale, Tensor{}, Tensor{}, Accumulation::exact);

  const Numbers found = bench.read(d);
  for (std::int64_t m = 0; m < M; ++m) {
    for (std::int64_t n = 0; n < N; ++n) {
      double product = 0, size = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        const double term = value_at(a, a_scale, m, k) * value_at(b, b_scale, n, k);
        product += term;
        size += std::abs(term);
      }
      CHECK(std::abs(found[static_cast<std::size_t>(m * N + n)] - product) <= 1e-5 * size);
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
