// FP8 with scales per block, square and tensor: bytes and scales are the CPU's bit for bit; products agree to the
// tolerance of bf16.
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

// Blocks whose sizes differ by powers of two, with zeros and where asked an infinity and a NaN.
Twin uneven(Lab& lab, std::int64_t rows, std::int64_t columns, bool with_specials) {
  const Twin noise = lab.normal(DType::f32, {rows, columns});
  const std::vector<double> values = values_of(Lab::cpu(), noise.cpu);
  return lab.of(DType::bf16, {rows, columns}, [&](std::int64_t i) {
    const std::int64_t r = i / columns, c = i % columns;
    if (c / 128 % 5 == 4) return 0.0;
    if (with_specials && r % 11 == 5 && c == 1) return std::numeric_limits<double>::infinity();
    if (with_specials && r % 13 == 7 && c == 2) return std::numeric_limits<double>::quiet_NaN();
    return values[static_cast<std::size_t>(i)] * std::ldexp(1.0, static_cast<int>((r * 3 + c / 128 * 5) % 19) - 12);
  });
}

struct Quantized {
  Twin bytes, scale;
};

Quantized memory(Lab& lab, Scaling scaling, std::int64_t rows, std::int64_t columns) {
  return {lab.integers(DType::u8, {rows, columns}, 0, 255),
          lab.poisoned(DType::f32, scale_shape(scaling, rows, columns))};
}

Quantized quantized(Lab& lab, const Twin& x, Scaling scaling, DType format, Scales scales) {
  const Quantized made = memory(lab, scaling, x.cpu.rows(), x.cpu.columns());
  const Twin q = as_format(made.bytes, format), largest = lab.poisoned(DType::f32, {1});
  for (const bool on_gpu : {false, true}) {
    Backend& be = on_gpu ? Lab::cuda() : Lab::cpu();
    const auto side = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
    if (scaling == Scaling::tensor) {
      be.largest_magnitude(side(largest), side(x));
      be.scale_for(side(made.scale), side(largest), format, scales);
      be.quantize(side(q), side(x), side(made.scale));
    } else {
      be.quantize_blocks(side(q), side(made.scale), side(x), scales);
    }
  }
  return made;
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

TEST_CASE("fp8 blocks, squares and tensors and their transposed copies are the CPU's bit for bit") {
  struct Size {
    std::int64_t rows, columns;
  };
  const Size s = GENERATE(Size{16, 16}, Size{48, 2048}, Size{144, 272}, Size{272, 144}, Size{256, 1536});
  const Scaling scaling = GENERATE(Scaling::tensor, Scaling::block, Scaling::square);
  const Scales scales = GENERATE(Scales::powers_of_two, Scales::any);
  const bool specials = GENERATE(false, true);
  for (const DType format : {DType::e4m3, DType::e5m2}) {
    Lab lab;
    const Quantized made = quantized(lab, uneven(lab, s.rows, s.columns, specials), scaling, format, scales);
    const Quantized turned = memory(lab, scaling, s.columns, s.rows);
    const Twin q = as_format(made.bytes, format), t = as_format(turned.bytes, format);

    Lab::cpu().transpose_quantized(t.cpu, turned.scale.cpu, q.cpu, made.scale.cpu);
    Lab::cuda().transpose_quantized(t.cuda, turned.scale.cuda, q.cuda, made.scale.cuda);

    same_bits(made.scale);
    if (specials && scaling == Scaling::tensor) continue;  // all NaN, whose bytes are free
    same_bits(made.bytes);
    if (specials) continue;
    same_bits(turned.scale);
    same_bits(turned.bytes);
  }
}

TEST_CASE("a part of a wider matrix is quantised as if it stood alone") {
  Lab lab;
  const Twin wide = uneven(lab, 48, 768, false);
  const Twin x{wide.cpu.slice_columns(256, 272), wide.cuda.slice_columns(256, 272)};
  for (const Scaling scaling : {Scaling::tensor, Scaling::block, Scaling::square}) {
    const Quantized made = quantized(lab, x, scaling, DType::e4m3, Scales::powers_of_two);
    same_bits(made.scale);
    same_bits(made.bytes);
  }
}

TEST_CASE("rows longer than the registers hold are the CPU's bit for bit") {
  Lab lab;
  const Twin x = uneven(lab, 16, 128256, false), bytes = lab.integers(DType::u8, {16, 128256}, 0, 255),
             scale = lab.poisoned(DType::f32, {16});
  const Twin q = as_format(bytes, DType::e5m2);

  Lab::cpu().quantize_rows(q.cpu, scale.cpu, x.cpu);
  Lab::cuda().quantize_rows(q.cuda, scale.cuda, x.cuda);

  same_bits(scale);
  same_bits(bytes);
}

TEST_CASE("products of blocks with squares, of blocks with blocks and of tensors agree") {
  struct Case {
    Scaling a, b;
    DType a_format;
  };
  // Forward, dX and dW of the recipe block; of current.
  const Case which =
      GENERATE(Case{Scaling::block, Scaling::square, DType::e4m3}, Case{Scaling::block, Scaling::square, DType::e5m2},
               Case{Scaling::block, Scaling::block, DType::e5m2}, Case{Scaling::tensor, Scaling::tensor, DType::e4m3},
               Case{Scaling::tensor, Scaling::tensor, DType::e5m2});
  const std::int64_t K = GENERATE(272, 512);
  const std::int64_t M = 144, N = 208;
  Lab lab;
  const Quantized a = quantized(lab, uneven(lab, M, K, false), which.a, which.a_format, Scales::powers_of_two),
                  b = quantized(lab, lab.normal(DType::bf16, {N, K}, 0.1), which.b, DType::e4m3, Scales::any);
  const Twin bias = lab.normal(DType::bf16, {N}), addend = lab.normal(DType::bf16, {M, N});
  const Twin plain = lab.poisoned(DType::bf16, {M, N}), all = lab.poisoned(DType::bf16, {M, N}),
             summed = lab.normal(DType::f32, {M, N}), written = lab.poisoned(DType::f32, {M, N});

  for (const bool on_gpu : {false, true}) {
    Backend& be = on_gpu ? Lab::cuda() : Lab::cpu();
    const auto side = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
    const Tensor qa = side(as_format(a.bytes, which.a_format)), qb = side(as_format(b.bytes, DType::e4m3));
    const auto product = [&](const Twin& d, Tensor with_bias, Tensor with) {
      be.matmul_scaled(side(d), qa, side(a.scale), qb, side(b.scale), with_bias, with, Accumulation::fast);
    };
    product(plain, Tensor{}, Tensor{});
    product(all, side(bias), side(addend));
    product(summed, Tensor{}, side(summed));
    product(written, Tensor{}, Tensor{});
  }

  agree("matmul", DType::bf16, plain);
  agree("residual", DType::bf16, all);
  agree("matmul", DType::bf16, summed);
  agree("matmul", DType::bf16, written);
}
