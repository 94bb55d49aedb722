#include "catch.h"
#include "lab.h"

using namespace trireme;

namespace {
constexpr RandomKey k_key{7, stream_of("norm"), 1};

struct Norms {
  Twin x, gain, bias, y, mean, rstd;
};

Norms make(Lab& lab, DType dtype, std::int64_t T, std::int64_t C, bool with_bias) {
  Norms n;
  n.x = lab.normal(dtype, {T, C}, 2.0, 0.5);
  n.gain = lab.normal(dtype, {C}, 0.3, 1.0);
  if (with_bias) n.bias = lab.normal(dtype, {C});
  n.y = lab.poisoned(dtype, {T, C});
  n.mean = lab.poisoned(DType::f32, {T});
  n.rstd = lab.poisoned(DType::f32, {T});
  return n;
}
}  // namespace

TEST_CASE("norms of rows that fit registers, that do not, and that are not aligned") {
  const std::int64_t C = GENERATE(8, 97, 768, 2048, 5120, 12288, 16384, 40000);
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms);
  for (const DType dtype : k_storage) {
    Lab lab;
    const bool layer = kind == NormKind::layer;
    const Norms n = make(lab, dtype, 11, C, layer);

    Lab::cpu().norm(n.y.cpu, layer ? n.mean.cpu : Tensor{}, n.rstd.cpu, n.x.cpu, n.gain.cpu, n.bias.cpu, kind, 1e-5);
    Lab::cuda().norm(n.y.cuda, layer ? n.mean.cuda : Tensor{}, n.rstd.cuda, n.x.cuda, n.gain.cuda, n.bias.cuda, kind,
                     1e-5);

    agree("norm", dtype, n.y);
    agree("statistics", dtype, n.rstd);
    if (layer) agree("statistics", dtype, n.mean);
  }
}

TEST_CASE("the backward pass of a norm adds to dx and fills or adds the parameter gradients") {
  const std::int64_t C = GENERATE(8, 97, 768, 2048, 5120, 12288, 20000);
  const std::int64_t T = GENERATE(3, 700);
  if (T > 100 && C > 3000) return;
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms);
  for (const DType dtype : k_storage) {
    for (const Into into : {Into::replace, Into::add}) {
      Lab lab;
      const bool layer = kind == NormKind::layer;
      const Norms n = make(lab, dtype, T, C, layer);
      Lab::cpu().norm(n.y.cpu, layer ? n.mean.cpu : Tensor{}, n.rstd.cpu, n.x.cpu, n.gain.cpu, n.bias.cpu, kind, 1e-5);
      Lab::cuda().norm(n.y.cuda, layer ? n.mean.cuda : Tensor{}, n.rstd.cuda, n.x.cuda, n.gain.cuda, n.bias.cuda, kind,
                       1e-5);
      const Twin dy = lab.normal(dtype, {T, C}), dx = lab.normal(dtype, {T, C});
      const DType grad = into == Into::add ? DType::f32 : dtype;
      const Twin dgain = into == Into::add ? lab.normal(grad, {C}) : lab.poisoned(grad, {C});
      const Twin dbias = into == Into::add ? lab.normal(grad, {C}) : lab.poisoned(grad, {C});

      Lab::cpu().norm_backward(dx.cpu, dgain.cpu, layer ? dbias.cpu : Tensor{}, dy.cpu, n.x.cpu, n.mean.cpu, n.rstd.cpu,
                               n.gain.cpu, kind, into);
      Lab::cuda().norm_backward(dx.cuda, dgain.cuda, layer ? dbias.cuda : Tensor{}, dy.cuda, n.x.cuda, n.mean.cuda,
                                n.rstd.cuda, n.gain.cuda, kind, into);

      agree("norm_backward", dtype, dx);
      agree("norm_backward", grad == DType::f32 ? DType::f32 : dtype, dgain);
      if (layer) agree("norm_backward", grad == DType::f32 ? DType::f32 : dtype, dbias);
    }
  }
}

TEST_CASE("the fused residual and norm is what its parts are") {
  const std::int64_t C = GENERATE(40, 99, 768, 2048, 16384);
  const double p = GENERATE(0.0, 0.25);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Norms n = make(lab, dtype, 19, C, true);
    const Twin x_bias = lab.normal(dtype, {C}), residual = lab.normal(dtype, {19, C}),
               out = lab.poisoned(dtype, {19, C});
    const Twin rows = lab.integers(DType::i64, {19}, 0, 5000);

    Lab::cpu().add_norm(n.y.cpu, n.mean.cpu, n.rstd.cpu, out.cpu, n.x.cpu, x_bias.cpu, residual.cpu, rows.cpu, p, k_key,
                        n.gain.cpu, n.bias.cpu, NormKind::layer, 1e-5);
    Lab::cuda().add_norm(n.y.cuda, n.mean.cuda, n.rstd.cuda, out.cuda, n.x.cuda, x_bias.cuda, residual.cuda, rows.cuda,
                         p, k_key, n.gain.cuda, n.bias.cuda, NormKind::layer, 1e-5);

    agree("elementwise", dtype, out);
    agree("fused", dtype, n.y);
    agree("statistics", DType::f32, n.rstd);
  }
}

TEST_CASE("head norms on views of a fused buffer") {
  const std::int64_t D = GENERATE(16, 33, 64, 80, 128, 256);
  for (const DType dtype : k_storage) {
    Lab lab;
    const std::int64_t T = 29, H = 5;
    const Twin fused = lab.normal(dtype, {T, 3 * H * D}), x = fused.columns(H * D, H * D);
    const Twin gain = lab.normal(dtype, {D}, 0.2, 1.0), rstd = lab.poisoned(DType::f32, {T, H});
    const Twin y = lab.poisoned(dtype, {T, 2 * H * D}), dy = lab.normal(dtype, {T, 2 * H * D});
    const Twin dx = lab.poisoned(dtype, {T, 2 * H * D}), dgain = lab.normal(DType::f32, {D});

    Lab::cpu().head_norm(y.cpu.slice_columns(0, H * D), rstd.cpu, x.cpu, gain.cpu, 1e-6);
    Lab::cuda().head_norm(y.cuda.slice_columns(0, H * D), rstd.cuda, x.cuda, gain.cuda, 1e-6);
    Lab::cpu().head_norm_backward(dx.cpu.slice_columns(0, H * D), dgain.cpu, dy.cpu.slice_columns(H * D, H * D), x.cpu,
                                  rstd.cpu, gain.cpu, Into::add);
    Lab::cuda().head_norm_backward(dx.cuda.slice_columns(0, H * D), dgain.cuda, dy.cuda.slice_columns(H * D, H * D),
                                   x.cuda, rstd.cuda, gain.cuda, Into::add);

    agree("norm", dtype, y.columns(0, H * D));
    agree("statistics", dtype, rstd);
    agree("norm_backward", dtype, dx.columns(0, H * D));
    agree("norm_backward", DType::f32, dgain);
    same_poison(y);
    same_poison(dx);
  }
}
