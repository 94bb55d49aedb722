// FP8: bytes and scales are the CPU's bit for bit; products agree to the tolerance of bf16.
#include <cmath>
#include <limits>

#include "catch.h"
#include "lab.h"
#include "trireme/base/fp8.h"

using namespace trireme;

namespace {

Twin as_format(Twin x, DType format) {
  x.cpu.dtype = x.cuda.dtype = format;
  return x;
}

// Rows whose sizes differ by many powers of two, with zeros, an infinity and a NaN among them.
Twin wild_rows(Lab& lab, std::int64_t rows, std::int64_t columns, bool with_specials) {
  const Twin noise = lab.normal(DType::f32, {rows, columns});
  const std::vector<double> values = values_of(Lab::cpu(), noise.cpu);
  return lab.of(DType::bf16, {rows, columns}, [&](std::int64_t i) {
    const std::int64_t r = i / columns;
    if (r % 7 == 3) return 0.0;
    if (with_specials && r % 11 == 5 && i % columns == 1) return std::numeric_limits<double>::infinity();
    if (with_specials && r % 13 == 7 && i % columns == 2) return std::numeric_limits<double>::quiet_NaN();
    return values[static_cast<std::size_t>(i)] * std::ldexp(1.0, static_cast<int>(r % 23) - 12);
  });
}

struct Rows {
  Twin bytes, scale;
};

Rows quantized(Lab& lab, const Twin& x, DType format) {
  const Rows rows{lab.integers(DType::u8, x.cpu.shape, 0, 255), lab.poisoned(DType::f32, {x.cpu.rows()})};
  const Twin q = as_format(rows.bytes, format);
  Lab::cpu().quantize_rows(q.cpu, rows.scale.cpu, x.cpu);
  Lab::cuda().quantize_rows(q.cuda, rows.scale.cuda, x.cuda);
  return rows;
}

// Equal numbers, NaN where the other has NaN.
void same_bits(const Twin& x) {
  const auto expected = values_of(Lab::cpu(), x.cpu), found = values_of(Lab::cuda(), x.cuda);
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    differ += !(expected[i] == found[i] || (std::isnan(expected[i]) && std::isnan(found[i])));
  }
  INFO(to_string(x.cpu.shape) << ": " << differ << " elements differ");
  CHECK(differ == 0);
}

}  // namespace

TEST_CASE("fp8 rows and their transposed copies are the CPU's bit for bit") {
  struct Size {
    std::int64_t rows, columns;
  };
  const Size s = GENERATE(Size{16, 16}, Size{48, 2048}, Size{144, 272}, Size{256, 8192}, Size{32, 28672});
  const bool specials = GENERATE(false, true);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    Lab lab;
    const Rows rows = quantized(lab, wild_rows(lab, s.rows, s.columns, specials), format);
    const Twin turned = lab.integers(DType::u8, {s.columns, s.rows}, 0, 255), one = lab.poisoned(DType::f32, {3});
    const Twin q = as_format(rows.bytes, format), t = as_format(turned, format);

    Lab::cpu().transpose_quantized(t.cpu, one.cpu, q.cpu, rows.scale.cpu);
    Lab::cuda().transpose_quantized(t.cuda, one.cuda, q.cuda, rows.scale.cuda);

    same_bits(rows.scale);
    same_bits(rows.bytes);
    same_bits(one);
    if (!specials) same_bits(turned);
  }
}

TEST_CASE("scaled products agree, with row scales and with one scale, added and replaced") {
  const std::int64_t M = 144, N = 96, K = 272;
  Lab lab;
  const Rows a = quantized(lab, lab.normal(DType::bf16, {M, K}), DType::e5m2),
             b = quantized(lab, lab.normal(DType::bf16, {N, K}, 0.1), DType::e4m3);
  const Twin bias = lab.normal(DType::bf16, {N}), addend = lab.normal(DType::bf16, {M, N});
  const Twin plain = lab.poisoned(DType::bf16, {M, N}), all = lab.poisoned(DType::bf16, {M, N}),
             summed = lab.normal(DType::f32, {M, N});
  const Twin one = lab.of(DType::f32, {1}, [](std::int64_t) { return 0.25; });

  for (const bool on_gpu : {false, true}) {
    Backend& be = on_gpu ? Lab::cuda() : Lab::cpu();
    const auto side = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
    const Tensor qa = side(as_format(a.bytes, DType::e5m2)), qb = side(as_format(b.bytes, DType::e4m3));
    for (const Accumulation sum : {Accumulation::fast, Accumulation::exact}) {
      be.matmul_scaled(side(plain), qa, side(a.scale), qb, side(b.scale), Tensor{}, Tensor{}, sum);
      be.matmul_scaled(side(all), qa, side(a.scale), qb, side(b.scale), side(bias), side(addend), sum);
    }
    be.matmul_scaled(side(summed), qa, side(one), qb, side(one), Tensor{}, side(summed), Accumulation::exact);
  }

  agree("matmul", DType::bf16, plain);
  agree("residual", DType::bf16, all);
  agree("matmul", DType::bf16, summed);
}

namespace {

std::vector<double> numbers(Backend& backend, Tensor q, const Tensor& scale) {
  const DType format = q.dtype;
  q.dtype = DType::u8;
  std::vector<double> values = values_of(backend, q);
  const std::vector<double> scales = values_of(backend, scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = i / static_cast<std::size_t>(q.columns());
    values[i] = widen_fp8(static_cast<std::uint8_t>(values[i]), format) * scales[row];
  }
  return values;
}

// Last bits of bf16 differ between the two, and then sometimes a last bit of FP8 (one part in eight or in four).
void nearly_equal(const Twin& bytes, const Twin& scale, DType format) {
  const Twin q = as_format(bytes, format);
  const auto expected = numbers(Lab::cpu(), q.cpu, scale.cpu), found = numbers(Lab::cuda(), q.cuda, scale.cuda);
  double difference = 0, size = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (expected[i] - found[i]) * (expected[i] - found[i]);
    size += expected[i] * expected[i];
    differ += expected[i] != found[i];
  }
  INFO(to_string(q.cpu.shape) << ": " << differ << " of " << expected.size() << " elements differ");
  CHECK(size > 0);
  CHECK(difference <= 1e-4 * size);
  CHECK(differ <= expected.size() / 20 + 2);
}

}  // namespace

TEST_CASE("fp8 rows straight from norms and activations are those of the separate operations") {
  const std::int64_t C = GENERATE(48, 768, 2048, 8192, 28672, 49152);  // the last two: blocks of 1024 threads
  const std::int64_t T = 80;
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    Lab lab;
    const Twin x = lab.normal(DType::bf16, {T, C}, 2.0, 0.3), gain = lab.normal(DType::bf16, {C}),
               bias = lab.normal(DType::bf16, {C});
    const Twin both = lab.normal(DType::bf16, {T, 2 * C}), y = lab.poisoned(DType::bf16, {T, C}),
               dx = lab.poisoned(DType::bf16, {T, 2 * C});
    const Twin mean = lab.poisoned(DType::f32, {T}), rstd = lab.poisoned(DType::f32, {T}),
               db = lab.normal(DType::f32, {C});
    std::vector<Twin> q, scale;
    for (int i = 0; i < 6; ++i) {
      q.push_back(lab.integers(DType::u8, {T, i < 5 ? C : 2 * C}, 0, 255));
      scale.push_back(lab.poisoned(DType::f32, {T}));
    }

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      const auto rows = [&](std::size_t i) { return at(as_format(q[i], format)); };
      b.norm_quantize(rows(0), at(scale[0]), at(y), Tensor{}, at(rstd), at(x), at(gain), Tensor{}, NormKind::rms, 1e-5);
      b.norm_quantize(rows(1), at(scale[1]), at(y), at(mean), at(rstd), at(x), at(gain), at(bias), NormKind::layer,
                      1e-5);
      b.activation_quantize(rows(2), at(scale[2]), at(y), at(x), Activation::gelu_tanh);
      b.activation_quantize(rows(3), at(scale[3]), at(y), at(both), Activation::swiglu);
      b.activation_backward_quantize(rows(4), at(scale[4]), at(y), at(db), at(x), at(x), Activation::gelu_tanh,
                                     Into::add);
      b.activation_backward_quantize(rows(5), at(scale[5]), at(dx), Tensor{}, at(x), at(both), Activation::swiglu,
                                     Into::replace);
    }

    for (std::size_t i = 0; i < q.size(); ++i) nearly_equal(q[i], scale[i], format);
    agree("statistics", DType::f32, mean);
    agree("statistics", DType::f32, rstd);
    agree("sum", DType::bf16, db);
  }
}
