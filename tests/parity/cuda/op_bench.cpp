// Times every operation of a training step alone, at the shapes of a 1.3B and a 124M model in bf16, and prints what it
// reaches beside what the chip allows (bytes or FLOPs over rates measured in the same run). Median over rotating
// buffers. Arguments: "deterministic"; "loaded": products before each measurement bring the clock down to where it is
// in training; parts of what is printed ("attention", "linear", "norms", "mlp", "ends", "optimizer"), default all.
#include "bench.h"

#include <cmath>
#include <set>

#include "../../../src/device/plan/flops.h"
#include "trireme/base/log.h"

using namespace trireme;

namespace {

struct Model {
  const char* name;
  std::int64_t sequences, rows, C, F, H, D, V, head_chunk;
  std::int64_t T() const { return sequences * rows; }
};
constexpr Model k_models[] = {{"1.3B s2048", 8, 2048, 2048, 8192, 16, 128, 50304, 4096},
                              {"124M s1024", 64, 1024, 768, 3072, 12, 64, 50304, 8192},
                              {"1.3B s16384", 1, 16384, 2048, 8192, 16, 128, 50304, 4096}};

void rates(Bench& bench) {
  const ArenaScope scope(bench.arena);
  const Set x = three(bench, DType::bf16, {8192, 65536}, 1), w = three(bench, DType::bf16, {8192, 8192}, 1);
  const Tensor y = bench.arena.take(DType::bf16, {8192, 65536});
  const double copied = 2.0 * static_cast<double>(y.bytes());
  bench.copy_rate = copied / bench.median_ms([&](int i) { bench.b.copy(y, x[static_cast<std::size_t>(i)]); }) / 1e6;
  const Tensor product = y.slice_columns(0, 8192);
  const double ms = bench.median_ms([&](int i) {
    bench.b.matmul(product, x[static_cast<std::size_t>(i)].slice_columns(0, 8192), w[static_cast<std::size_t>(i)], {});
  });
  bench.gemm_rate = matmul_flops(8192, 8192, 8192) / ms / 1e9;
  std::printf("device copy %.0f GB/s, bf16 product 8192^3 %.0f TFLOP/s\n", bench.copy_rate, bench.gemm_rate);
}

void linear(Bench& bench, const char* name, std::int64_t T, std::int64_t C, std::int64_t F, bool bias) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const Set x = three(bench, DType::bf16, {T, C}, 1), dy = three(bench, DType::bf16, {T, F}, 1);
  const Tensor w = bench.normal(DType::bf16, {F, C}, 0.02), b_F = bench.normal(DType::bf16, {F}, 1);
  const Tensor y = bench.arena.take(DType::bf16, {T, F}), dx = bench.arena.take(DType::bf16, {T, C});
  const Tensor dw = bench.zeros(DType::f32, {F, C}), narrow = bench.zeros(DType::bf16, {F, C});
  const double flops = matmul_flops(T, F, C);
  const std::string label = std::string(name) + " ";
  const auto at = [](const Set& s, int i) { return s[static_cast<std::size_t>(i)]; };
  if (bias) bench.flops(label + "y + bias", flops, [&](int i) { b.matmul(y, at(x, i), w, b_F); });
  bench.flops(label + "y", flops, [&](int i) { b.matmul(y, at(x, i), w, {}); });
  if (!bias && F < T) {  // a projection back to the residual
    bench.flops(label + "y + residual", flops, [&](int i) { b.matmul_residual(y, at(x, i), w, {}, at(dy, i)); });
    bench.flops(label + "y + bias + residual", flops,
                [&](int i) { b.matmul_residual(y, at(x, i), w, b_F, at(dy, i)); });
  }
  bench.flops(label + "dx", flops, [&](int i) { b.matmul_dx(dx, at(dy, i), w); });
  bench.flops(label + "dw f32 +=", flops, [&](int i) { b.matmul_dw(dw, at(dy, i), at(x, i), Into::add); });
  bench.flops(label + "dw bf16 +=", flops, [&](int i) { b.matmul_dw(narrow, at(dy, i), at(x, i), Into::add); });
}

void norms(Bench& bench, const Model& m) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const std::int64_t T = m.T(), C = m.C;
  const double row_bytes = 2.0 * static_cast<double>(T * C);
  const Set x = three(bench, DType::bf16, {T, C}, 1), r = three(bench, DType::bf16, {T, C}, 1);
  const Tensor y = bench.arena.take(DType::bf16, {T, C}), out = bench.arena.take(DType::bf16, {T, C});
  const Tensor gain = bench.normal(DType::bf16, {C}, 1), bias = bench.normal(DType::bf16, {C}, 1);
  const Tensor mean = bench.zeros(DType::f32, {T}), rstd = bench.normal(DType::f32, {T}, 1);
  const Tensor dgain = bench.zeros(DType::f32, {C}), dbias = bench.zeros(DType::f32, {C});
  const Tensor rows = bench.integers(DType::i64, T, 1 << 30);
  const auto at = [](const Set& s, int i) { return s[static_cast<std::size_t>(i)]; };
  const RandomKey key{1, 2, 3};
  bench.bytes("norm", 2 * row_bytes,
              [&](int i) { b.norm(y, mean, rstd, at(x, i), gain, bias, NormKind::layer, 1e-5); });
  bench.bytes("norm rms", 2 * row_bytes, [&](int i) { b.norm(y, {}, rstd, at(x, i), gain, {}, NormKind::rms, 1e-5); });
  bench.bytes("add_norm", 4 * row_bytes, [&](int i) {
    b.add_norm(y, mean, rstd, out, at(x, i), bias, at(r, i), {}, 0.0, key, gain, bias, NormKind::layer, 1e-5);
  });
  bench.bytes("add_norm, dropout", 4 * row_bytes, [&](int i) {
    b.add_norm(y, mean, rstd, out, at(x, i), bias, at(r, i), rows, 0.1, key, gain, bias, NormKind::layer, 1e-5);
  });
  bench.bytes("norm_backward", 4 * row_bytes, [&](int i) {
    b.norm_backward(out, dgain, dbias, at(r, i), at(x, i), mean, rstd, gain, NormKind::layer, Into::add);
  });
  bench.bytes("dropout_add p=0", 3 * row_bytes,
              [&](int i) { b.dropout_add(y, at(x, i), bias, at(r, i), {}, 0.0, key); });
  bench.bytes("dropout_add p=0.1", 3 * row_bytes,
              [&](int i) { b.dropout_add(y, at(x, i), bias, at(r, i), rows, 0.1, key); });
  bench.bytes("sum_rows [T, C]", row_bytes, [&](int i) { b.sum_rows(dbias, at(x, i), Into::add); });
}

void mlp(Bench& bench, const Model& m) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const std::int64_t T = m.T(), F = m.F;
  const double row_bytes = 2.0 * static_cast<double>(T * F);
  const Set x = three(bench, DType::bf16, {T, F}, 1), dy = three(bench, DType::bf16, {T, F}, 1),
            h = three(bench, DType::bf16, {T, m.C}, 1);
  const Tensor y = bench.arena.take(DType::bf16, {T, F}), before = bench.arena.take(DType::bf16, {T, F});
  const Tensor w = bench.normal(DType::bf16, {F, m.C}, 0.02), bias = bench.normal(DType::bf16, {F}, 1),
               db = bench.zeros(DType::f32, {F});
  const auto at = [](const Set& s, int i) { return s[static_cast<std::size_t>(i)]; };
  bench.bytes("gelu", 2 * row_bytes, [&](int i) { b.activation(y, at(x, i), Activation::gelu_tanh); });
  bench.bytes("gelu backward", 3 * row_bytes,
              [&](int i) { b.activation_backward(y, at(dy, i), at(x, i), Activation::gelu_tanh); });
  bench.bytes("gelu backward + bias", 3 * row_bytes,
              [&](int i) { b.activation_backward_bias(y, db, at(dy, i), at(x, i), Activation::gelu_tanh, Into::add); });
  const Tensor half = Tensor(y.data, DType::bf16, {T, F / 2});
  bench.bytes("swiglu [2 x F/2]", 1.5 * row_bytes, [&](int i) { b.activation(half, at(x, i), Activation::swiglu); });
  bench.bytes("swiglu backward", 2.5 * row_bytes, [&](int i) {
    b.activation_backward(before, Tensor(at(dy, i).data, DType::bf16, {T, F / 2}), at(x, i), Activation::swiglu);
  });
  bench.flops("matmul + gelu", matmul_flops(T, F, m.C),
              [&](int i) { b.matmul_activation(y, before, at(h, i), w, bias, Activation::gelu_tanh); });
}

void attention(Bench& bench, const Model& m) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const std::int64_t T = m.T(), width = m.H * m.D;
  AttentionShape s;
  s.n_sequences = m.sequences;
  s.query_heads = s.kv_heads = m.H;
  s.head_dim = m.D;
  s.q_rows = s.q_stride = s.k_rows = s.k_stride = m.rows;
  s.scale = 1 / std::sqrt(static_cast<double>(m.D));
  const Set qkv = three(bench, DType::bf16, {T, 3 * width}, 1), dout = three(bench, DType::bf16, {T, width}, 1);
  const Tensor out = bench.zeros(DType::bf16, {T, width}), dqkv = bench.zeros(DType::bf16, {T, 3 * width});
  const Tensor wide = bench.zeros(DType::f32, {T, width}), dwide = bench.zeros(DType::f32, {T, 3 * width});
  const Tensor lse = bench.zeros(DType::f32, {m.sequences * m.H, m.rows});
  const auto part = [&](const Tensor& x, int i) { return x.slice_columns(i * width, width); };
  const auto at = [](const Set& x, int i) { return x[static_cast<std::size_t>(i)]; };
  const double forward = attention_forward_flops(s), backward = attention_backward_flops(s);
  bench.flops("attention", forward, [&](int i) {
    b.attention(out, lse, part(at(qkv, i), 0), part(at(qkv, i), 1), part(at(qkv, i), 2), {}, s);
  });
  bench.flops("attention backward", backward, [&](int i) {
    b.attention_backward(part(dqkv, 0), part(dqkv, 1), part(dqkv, 2), at(dout, i), out, lse, part(at(qkv, i), 0),
                         part(at(qkv, i), 1), part(at(qkv, i), 2), {}, s, Into::replace);
  });
  bench.flops("attention into f32", forward, [&](int i) {
    b.attention(wide, lse, part(at(qkv, i), 0), part(at(qkv, i), 1), part(at(qkv, i), 2), {}, s);
  });
  bench.flops("attention backward f32 +=", backward, [&](int i) {
    b.attention_backward(part(dwide, 0), part(dwide, 1), part(dwide, 2), at(dout, i), out, lse, part(at(qkv, i), 0),
                         part(at(qkv, i), 1), part(at(qkv, i), 2), {}, s, Into::add);
  });
  const Tensor position = bench.integers(DType::i32, T, m.rows),
               table = bench.normal(DType::f32, {m.rows, m.D / 2, 2}, 1);
  const double width_bytes = 2.0 * static_cast<double>(T * width);
  bench.bytes("rope q, k", 4 * width_bytes,
              [&](int i) { b.rope(at(qkv, i).slice_columns(0, 2 * width), position, table, m.D, false); });
  const Tensor gain = bench.normal(DType::bf16, {m.D}, 1), rstd = bench.zeros(DType::f32, {T, m.H}),
               dgain = bench.zeros(DType::f32, {m.D});
  bench.bytes("head_norm q", 2 * width_bytes, [&](int i) { b.head_norm(out, rstd, part(at(qkv, i), 0), gain, 1e-6); });
  bench.bytes("head_norm_backward q", 3 * width_bytes, [&](int i) {
    b.head_norm_backward(part(dqkv, 0), dgain, at(dout, i), part(at(qkv, i), 0), rstd, gain, Into::add);
  });
  const Tensor db = bench.zeros(DType::f32, {3 * width}), other = bench.zeros(DType::f32, {T, width});
  bench.bytes("sum_rows [T, 3C]", 3 * width_bytes, [&](int i) { b.sum_rows(db, at(qkv, i), Into::replace); });
  if (m.sequences == 1) return;
  AttentionShape later = s;
  later.first_q = m.rows;  // as a ring step: everything visible, f32 result
  bench.flops("attention all visible into f32", attention_forward_flops(later), [&](int i) {
    b.attention(wide, lse, part(at(qkv, i), 0), part(at(qkv, i), 1), part(at(qkv, i), 2), {}, later);
  });
  bench.bytes("attention_merge", 12.0 * static_cast<double>(T * width),
              [&](int) { b.attention_merge(wide, lse, other, lse, s); });
}

void ends(Bench& bench, const Model& m) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const std::int64_t T = m.T(), n = m.head_chunk;
  const double row_bytes = 2.0 * static_cast<double>(T * m.C), logit_bytes = 2.0 * static_cast<double>(n * m.V);
  const Tensor table = bench.normal(DType::bf16, {m.V, m.C}, 0.02), dtable = bench.zeros(DType::f32, {m.V, m.C});
  const Set x = three(bench, DType::bf16, {T, m.C}, 1), logits = three(bench, DType::bf16, {n, m.V}, 2);
  const Tensor ids = bench.integers(DType::i32, T, m.V), out = bench.arena.take(DType::bf16, {T, m.C});
  const Tensor max = bench.zeros(DType::f32, {n}), sum = bench.zeros(DType::f32, {n}),
               picked = bench.zeros(DType::f32, {n}), loss = bench.zeros(DType::f32, {n});
  const CrossEntropy ce{0, m.V - 47, 1e-4, 0};
  const Tensor target = ids.slice_rows(0, n);
  const auto at = [](const Set& s, int i) { return s[static_cast<std::size_t>(i)]; };
  bench.bytes("embed", 2 * row_bytes, [&](int) { b.embed(out, table, ids, 0, Into::replace); });
  bench.bytes("embed_backward", row_bytes, [&](int i) { b.embed_backward(dtable, at(x, i), ids, 0); });
  bench.bytes("softmax_stats chunk", logit_bytes,
              [&](int i) { b.softmax_stats(max, sum, picked, at(logits, i), target, ce); });
  bench.bytes("cross_entropy chunk", 2 * logit_bytes,
              [&](int i) { b.cross_entropy(loss, at(logits, i), target, max, sum, picked, ce, true); });
  bench.bytes("cross_entropy_whole chunk", 2 * logit_bytes,
              [&](int i) { b.cross_entropy_whole(loss, at(logits, i), target, max, sum, picked, ce, true); });
}

void optimizer(Bench& bench) {
  const ArenaScope scope(bench.arena);
  Backend& b = bench.b;
  const std::int64_t n = std::int64_t{256} << 20;
  const Tensor param = bench.normal(DType::bf16, {n}, 0.02), master = bench.normal(DType::f32, {n}, 0.02),
               grad = bench.normal(DType::f32, {n}, 1);
  const Tensor m = bench.normal(DType::f32, {n}, 1e-3), v = bench.zeros(DType::f32, {n}),
               rest = bench.zeros(DType::u16, {n});
  const Tensor m16 = bench.normal(DType::bf16, {n}, 1e-3), v16 = bench.zeros(DType::bf16, {n}),
               grad16 = bench.normal(DType::bf16, {n}, 1);
  const Tensor norm_sq = bench.zeros(DType::f64, {1});
  AdamWStep step;
  step.lr = 1e-4;
  step.clip = 1;
  const auto count = static_cast<double>(n);
  bench.bytes("adamw 256M f32 master, moments", 32 * count, [&](int) {
    b.adamw({param, master, m, v, grad}, step, norm_sq);
  });
  bench.bytes("adamw 256M u16 rest, f32 moments", 28 * count, [&](int) {
    b.adamw({param, rest, m, v, grad}, step, norm_sq);
  });
  bench.bytes("adamw 256M u16 rest, bf16, odd index", 18 * count, [&](int) {
    AdamWStep odd = step;
    odd.first_index = 3;
    b.adamw({param, rest, m16, v16, grad16}, odd, norm_sq);
  });
  bench.bytes("adamw 256M u16 rest, bf16 moments", 18 * count, [&](int) {
    b.adamw({param, rest, m16, v16, grad16}, step, norm_sq);
  });
  bench.bytes("sum_of_squares 256M f32", 4 * count, [&](int) { b.sum_of_squares(norm_sq, grad); });
  bench.bytes("sum_of_squares 256M bf16", 2 * count, [&](int) { b.sum_of_squares(norm_sq, grad16); });
  bench.bytes("fill 256M f32", 4 * count, [&](int) { b.fill(v, 0.0); });
  bench.bytes("copy 256M f32 to bf16", 6 * count, [&](int) { b.copy(m16, grad); });
  bench.bytes("scale 256M f32", 8 * count, [&](int) { b.scale(grad, 1.0); });
}

void run(Bench& bench, const Model& m, const std::function<bool(const char*)>& wanted) {
  std::printf("\n%s: T %lld, C %lld, F %lld, H %lld, D %lld\n", m.name, static_cast<long long>(m.T()),
              static_cast<long long>(m.C), static_cast<long long>(m.F), static_cast<long long>(m.H),
              static_cast<long long>(m.D));
  if (wanted("attention")) attention(bench, m);
  if (m.sequences == 1) return;
  if (wanted("linear")) {
    linear(bench, "qkv", m.T(), m.C, 3 * m.C, true);
    linear(bench, "projection", m.T(), m.C, m.C, false);
    linear(bench, "up", m.T(), m.C, m.F, true);
    linear(bench, "down", m.T(), m.F, m.C, false);
    linear(bench, "head chunk", m.head_chunk, m.C, m.V, false);
  }
  if (wanted("norms")) norms(bench, m);
  if (wanted("mlp")) mlp(bench, m);
  if (wanted("ends")) ends(bench, m);
}

}  // namespace

int main(int argc, char** argv) {
  if (cuda_device_count() == 0) {
    std::puts("skipped: no CUDA device");
    return 77;
  }
  std::set<std::string> parts(argv + 1, argv + argc);
  CudaOptions options;
  options.deterministic = parts.erase("deterministic") > 0;
  const bool loaded = parts.erase("loaded") > 0;
  const auto wanted = [&](const char* part) { return parts.empty() || parts.count(part) > 0; };
  log().open(true, LogLevel::debug, "");
  CudaBackend backend(0, options);
  std::printf("%s\n", backend.describe().c_str());
  Bench bench(backend);
  rates(bench);
  const Set operands = three(bench, DType::bf16, {8192, 8192}, 1);
  if (loaded) {
    bench.before_each = [&] {
      for (int i = 0; i < 4; ++i) backend.matmul(operands[0], operands[1], operands[2], {});
    };
  }
  for (const Model& m : k_models) run(bench, m, wanted);
  if (!wanted("optimizer")) return 0;
  std::printf("\noptimizer\n");
  optimizer(bench);
  std::printf("scratch memory %s\n", bytes_text(static_cast<double>(backend.workspace_bytes())).c_str());
}
