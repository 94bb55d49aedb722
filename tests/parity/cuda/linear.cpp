#include "catch.h"
#include "lab.h"

using namespace trireme;

TEST_CASE("the three matrix products at odd and at aligned sizes") {
  struct Size {
    std::int64_t T, C, F;
  };
  const Size s = GENERATE(Size{1, 8, 8}, Size{37, 29, 53}, Size{129, 64, 200}, Size{256, 768, 384});
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.normal(dtype, {s.T, s.C}), w = lab.normal(dtype, {s.F, s.C}, 0.2),
               bias = lab.normal(dtype, {s.F});
    const Twin dy = lab.normal(dtype, {s.T, s.F}), y = lab.poisoned(dtype, {s.T, s.F}),
               plain = lab.poisoned(dtype, {s.T, s.F});
    const Twin dx = lab.poisoned(dtype, {s.T, s.C}), dw = lab.poisoned(DType::f32, {s.F, s.C});
    const Twin added = lab.normal(DType::f32, {s.F, s.C}), narrow = lab.normal(dtype, {s.F, s.C});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.matmul(at(y), at(x), at(w), at(bias));
      b.matmul(at(plain), at(x), at(w), {});
      b.matmul_dx(at(dx), at(dy), at(w));
      b.matmul_dw(at(dw), at(dy), at(x), Into::replace);
      b.matmul_dw(at(added), at(dy), at(x), Into::add);
      b.matmul_dw(at(narrow), at(dy), at(x), Into::add);
    }

    agree("matmul", dtype, y);
    agree("matmul", dtype, plain);
    agree("matmul", dtype, dx);
    agree("matmul", DType::f32, dw);
    agree("matmul", DType::f32, added);
    agree("residual", dtype, narrow);  // cuBLASLt rounds the product to 16 bits before it adds the old value
  }
}

TEST_CASE("matrix products of pitched views touch no other column") {
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.normal(dtype, {40, 96}), w = lab.normal(dtype, {24, 32}), y = lab.poisoned(dtype, {40, 80});
    const Twin dx = lab.poisoned(dtype, {40, 96}), dy = lab.normal(dtype, {40, 80}),
               dw = lab.poisoned(DType::f32, {24, 32});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.matmul(at(y).slice_columns(16, 24), at(x).slice_columns(32, 32), at(w), {});
      b.matmul_dx(at(dx).slice_columns(64, 32), at(dy).slice_columns(8, 24), at(w));
      b.matmul_dw(at(dw), at(dy).slice_columns(8, 24), at(x).slice_columns(32, 32), Into::replace);
    }

    agree("matmul", dtype, y.columns(16, 24));
    agree("matmul", dtype, dx.columns(64, 32));
    agree("matmul", DType::f32, dw);
    same_poison(y);
    same_poison(dx);
  }
}

TEST_CASE("a product that adds a residual leaves the residual alone") {
  struct Size {
    std::int64_t T, C, F;
  };
  const Size s = GENERATE(Size{1, 8, 8}, Size{37, 29, 53}, Size{129, 64, 200}, Size{256, 768, 384});
  const bool has_bias = GENERATE(false, true);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.normal(dtype, {s.T, s.C}), w = lab.normal(dtype, {s.F, s.C}, 0.2),
               residual = lab.normal(dtype, {s.T, s.F}, 3.0);
    const Twin bias = has_bias ? lab.normal(dtype, {s.F}) : Twin{}, y = lab.poisoned(dtype, {s.T, s.F});

    for (int call = 0; call < 2; ++call) {  // the first one may try several algorithms
      Lab::cpu().matmul_residual(y.cpu, x.cpu, w.cpu, bias.cpu, residual.cpu);
      Lab::cuda().matmul_residual(y.cuda, x.cuda, w.cuda, bias.cuda, residual.cuda);
    }

    agree("residual", dtype, y);
    equal(residual);
  }
}

TEST_CASE("column sums") {
  const std::int64_t T = GENERATE(1, 33, 3000), F = GENERATE(7, 64, 776);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin dy = lab.normal(dtype, {T, F + 24}, 1.0, 0.2), db = lab.normal(DType::f32, {F}),
               fresh = lab.poisoned(dtype, {F});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.sum_rows(at(db), at(dy).slice_columns(8, F), Into::add);
      b.sum_rows(at(fresh), at(dy).slice_columns(8, F), Into::replace);
    }

    agree("sum", DType::f32, db);
    agree("sum", dtype, fresh);
  }
}

// Column sums of a matrix that one side rounded before adding: each element is off by half a unit in the last place.
// (A bound relative to the sums would fail where large terms cancel.)
static void sums_agree(const Twin& sums_F, const Twin& x_TF) {
  const auto expected = values_of(Lab::cpu(), sums_F.cpu), found = values_of(Lab::cuda(), sums_F.cuda);
  const auto terms = values_of(Lab::cpu(), x_TF.cpu);
  const DType dtype = x_TF.cpu.dtype;
  const double half_unit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0.0;
  for (std::size_t c = 0; c < expected.size(); ++c) {
    double size = 1 + std::abs(expected[c]);
    for (std::size_t i = c; i < terms.size(); i += expected.size()) size += std::abs(terms[i]);
    INFO(name_of(dtype) << " column " << c << ": CPU " << expected[c] << ", GPU " << found[c]);
    CHECK(std::abs(expected[c] - found[c]) <= (half_unit + 2e-6) * size);
  }
}

TEST_CASE("activations, their derivatives and the bias gradient on the way") {
  const Activation kind =
      GENERATE(Activation::gelu_tanh, Activation::gelu_erf, Activation::relu_squared, Activation::swiglu);
  const std::int64_t F = GENERATE(13, 64, 520), T = GENERATE(5, 400);
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t width = kind == Activation::swiglu ? 2 * F : F;
    const Twin x = lab.normal(dtype, {T, width}, 2.0), dy = lab.normal(dtype, {T, F}), y = lab.poisoned(dtype, {T, F});
    const Twin dx = lab.poisoned(dtype, {T, width}), alone = lab.poisoned(dtype, {T, width});
    const Twin db = lab.normal(DType::f32, {width});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.activation(at(y), at(x), kind);
      b.activation_backward(at(alone), at(dy), at(x), kind);
      b.activation_backward_bias(at(dx), at(db), at(dy), at(x), kind, Into::add);
    }

    agree("activation", dtype, y);
    agree("activation", dtype, alone);
    agree("activation", dtype, dx);
    sums_agree(db, dx);
  }
}

TEST_CASE("a matrix product with its activation keeps what the backward pass needs") {
  const Activation kind = GENERATE(Activation::gelu_tanh, Activation::swiglu);
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t T = 300, C = 256, F = 512, width = kind == Activation::swiglu ? 2 * F : F;
    const Twin x = lab.normal(dtype, {T, C}), w = lab.normal(dtype, {width, C}, 0.06),
               bias = lab.normal(dtype, {width});
    const Twin y = lab.poisoned(dtype, {T, F}), before = lab.poisoned(dtype, {T, width});

    Lab::cpu().matmul_activation(y.cpu, before.cpu, x.cpu, w.cpu, bias.cpu, kind);
    Lab::cuda().matmul_activation(y.cuda, before.cuda, x.cuda, w.cuda, bias.cuda, kind);

    agree("matmul", dtype, before);
    agree("fused", dtype, y);
  }
}

TEST_CASE("rotary embedding turns whole and partial heads, there and back") {
  const std::int64_t D = GENERATE(12, 64, 128), rotated = GENERATE(0, 1);
  const bool backward = GENERATE(false, true);
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t T = 45, H = 3, half = rotated == 0 ? D / 2 : D / 4;
    const Twin fused = lab.normal(dtype, {T, 2 * H * D}), x = fused.columns(H * D, H * D);
    const Twin position = lab.integers(DType::i32, {T}, 0, 99), angle = lab.normal(DType::f32, {100 * half}, 3.0);
    const auto angles = values_of(Lab::cpu(), angle.cpu);
    const Twin table = lab.of(DType::f32, {100, half, 2}, [&](std::int64_t i) {
      const double a = angles[static_cast<std::size_t>(i / 2)];
      return i % 2 == 0 ? std::cos(a) : std::sin(a);
    });

    Lab::cpu().rope(x.cpu, position.cpu, table.cpu, D, backward);
    Lab::cuda().rope(x.cuda, position.cuda, table.cuda, D, backward);

    agree("rope", dtype, fused);
  }
}
