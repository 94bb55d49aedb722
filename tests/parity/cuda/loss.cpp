#include <cmath>
#include <limits>

#include "catch.h"
#include "lab.h"

using namespace trireme;

TEST_CASE("cross entropy over a cut and padded vocabulary with masked tokens") {
  const std::int64_t V = GENERATE(9, 128, 1000, 50304);
  const double z_loss = GENERATE(0.0, 1e-2);
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t T = 23;
    const CrossEntropy ce{100, V - 3, 0.125, z_loss};
    const Twin logits = lab.normal(dtype, {T, V}, 3.0);
    const Twin target = lab.integers(DType::i32, {T}, -V / 8, 100 + V - 4);  // masked, another rank's, ours
    const Twin max = lab.poisoned(DType::f32, {T}), sum = lab.poisoned(DType::f32, {T}),
               picked = lab.poisoned(DType::f32, {T});
    const Twin loss = lab.poisoned(DType::f32, {T}), loss_only = lab.poisoned(DType::f32, {T});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.softmax_stats(at(max), at(sum), at(picked), at(logits), at(target), ce);
      b.cross_entropy(at(loss_only), at(logits), at(target), at(max), at(sum), at(picked), ce, false);
      b.cross_entropy(at(loss), at(logits), at(target), at(max), at(sum), at(picked), ce, true);
    }

    equal(max);
    equal(picked);
    agree("loss", dtype, sum);
    agree("loss", dtype, loss);
    agree("loss", dtype, loss_only);
    agree("loss_gradient", dtype, logits);
  }
}

TEST_CASE("cross entropy in one pass is what its parts are") {
  const std::int64_t V = GENERATE(9, 64, 1000, 32000, 50304, 150000), padding = GENERATE(0, 3, 47);
  const double z_loss = GENERATE(0.0, 1e-2);
  if (padding >= V) return;
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t T = 23;
    const CrossEntropy ce{0, V - padding, 0.125, z_loss};
    const Twin logits = lab.normal(dtype, {T, V}, 3.0), kept = lab.copy_of(logits);
    const Twin target = lab.integers(DType::i32, {T}, -V / 8, V - padding - 1);  // some are masked
    const Twin max = lab.poisoned(DType::f32, {T}), sum = lab.poisoned(DType::f32, {T}),
               picked = lab.poisoned(DType::f32, {T});
    const Twin loss = lab.poisoned(DType::f32, {T}), loss_only = lab.poisoned(DType::f32, {T});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.cross_entropy_whole(at(loss_only), at(kept), at(target), at(max), at(sum), at(picked), ce, false);
      b.cross_entropy_whole(at(loss), at(logits), at(target), at(max), at(sum), at(picked), ce, true);
    }

    equal(kept);
    equal(max);
    equal(picked);
    agree("loss", dtype, sum);
    agree("loss", dtype, loss);
    agree("loss", dtype, loss_only);
    agree("loss_gradient", dtype, logits);
  }
}

TEST_CASE("sums of different ranks become addable, also that of a rank without real tokens") {
  Lab lab;
  const double lowest = -std::numeric_limits<double>::infinity();
  const Twin sum =
      lab.of(DType::f32, {300}, [](std::int64_t i) { return i == 0 ? 0.0 : 1.0 + 0.01 * static_cast<double>(i); });
  const Twin local =
      lab.of(DType::f32, {300}, [&](std::int64_t i) { return i == 0 ? lowest : 0.1 * static_cast<double>(i); });
  const Twin global = lab.of(DType::f32, {300},
                             [&](std::int64_t i) { return 0.1 * static_cast<double>(i) + static_cast<double>(i % 3); });

  Lab::cpu().softmax_rescale(sum.cpu, local.cpu, global.cpu);
  Lab::cuda().softmax_rescale(sum.cuda, local.cuda, global.cuda);

  agree("loss", DType::f32, sum);
}

TEST_CASE("embedding rows of this rank, replaced or added") {
  const std::int64_t C = GENERATE(7, 64, 768);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin table = lab.normal(dtype, {50, C}), ids = lab.integers(DType::i32, {200}, 0, 119);
    const Twin y = lab.poisoned(dtype, {200, C}), added = lab.normal(dtype, {200, C});

    for (const bool on_gpu : {false, true}) {
      Backend& b = on_gpu ? Lab::cuda() : Lab::cpu();
      const auto at = [&](const Twin& t) { return on_gpu ? t.cuda : t.cpu; };
      b.embed(at(y), at(table), at(ids), 40, Into::replace);
      b.embed(at(added), at(table), at(ids), 40, Into::add);
    }

    agree("embedding", dtype, y);
    agree("embedding", dtype, added);
  }
}

TEST_CASE("the embedding's gradient sums long and short runs of one id") {
  const std::int64_t C = GENERATE(5, 64, 2056);
  const std::int64_t T = GENERATE(1, 31, 32, 33, 1500), n_ids = GENERATE(1, 3, 500);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const DType grad : {DType::f32, dtype}) {
      Lab lab;
      const Twin dy = lab.normal(dtype, {T, C}), dtable = lab.normal(grad, {300, C}, 0.1);
      const Twin ids = lab.integers(DType::i32, {T}, 90, 90 + n_ids - 1);  // some belong to other ranks

      Lab::cpu().embed_backward(dtable.cpu, dy.cpu, ids.cpu, 100);
      Lab::cuda().embed_backward(dtable.cuda, dy.cuda, ids.cuda, 100);

      agree("embedding", grad, dtable);
    }
  }
}

TEST_CASE("the embedding's gradient has the same bits every time") {
  Lab lab;
  const Twin dy = lab.normal(DType::bf16, {5000, 64}), ids = lab.integers(DType::i32, {5000}, 0, 20);
  const Twin first = lab.of(DType::f32, {21, 64}, [](std::int64_t) { return 0.0; }), second = lab.copy_of(first);

  Lab::cuda().embed_backward(first.cuda, dy.cuda, ids.cuda, 0);
  Lab::cuda().embed_backward(second.cuda, dy.cuda, ids.cuda, 0);

  CHECK(values_of(Lab::cuda(), first.cuda) == values_of(Lab::cuda(), second.cuda));
}
