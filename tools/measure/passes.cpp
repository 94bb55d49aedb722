// Operations that are bound by memory. The bytes are those that the plan counts for the very same call.
#include <vector>

#include "bench.h"
#include "trireme/base/log.h"

namespace trireme::measure {

namespace {

class Passes {
 public:
  Passes(Bench& bench, Machine& machine) : bench_(bench), machine_(machine) {}
  void run(DType dtype, std::int64_t T, std::int64_t C);

 private:
  void time(Pass pass, const Operation& operation) {
    const double bytes = bench_.counted(operation).bytes_;
    const double rate = bytes / bench_.seconds(operation);
    machine_.passes[name_of(pass)] = rate;
    log().info(format("%-20s %8.1f GB/s", name_of(pass), rate / 1e9));
  }
  void elementwise(DType dtype, std::int64_t T, std::int64_t C);
  void vocabulary(DType dtype, std::int64_t T, std::int64_t C);
  void optimizer(DType dtype, std::int64_t T, std::int64_t C);

  Bench& bench_;
  Machine& machine_;
};

void Passes::elementwise(DType dtype, std::int64_t T, std::int64_t C) {
  const ArenaScope scope(bench_.arena());
  const DType acc = accumulator_of(dtype);
  const Tensor x = bench_.random(dtype, {T, C}, 1), y = bench_.zeros(dtype, {T, C}),
               dy = bench_.random(dtype, {T, C}, 1);
  const Tensor mean = bench_.zeros(acc, {T}), rstd = bench_.zeros(acc, {T});
  const Tensor gain = bench_.random(dtype, {C}, 1), bias = bench_.random(dtype, {C}, 1);
  const Tensor dgain = bench_.zeros(acc, {C}), dbias = bench_.zeros(acc, {C});
  const Tensor position = bench_.zeros(DType::i32, {T}), table = bench_.zeros(acc, {1, 32, 2});
  time(Pass::elementwise, [&](Backend& be) { be.dropout_add(y, x, Tensor{}, dy, Tensor{}, 0, RandomKey{}); });
  time(Pass::norm, [&](Backend& be) { be.norm(y, mean, rstd, x, gain, bias, NormKind::layer, 1e-5); });
  time(Pass::norm_backward, [&](Backend& be) {
    be.norm_backward(y, dgain, dbias, dy, x, mean, rstd, gain, NormKind::layer, Into::replace);
  });
  time(Pass::activation, [&](Backend& be) { be.activation(y, x, Activation::gelu_tanh); });
  time(Pass::activation_backward,
       [&](Backend& be) { be.activation_backward_bias(y, dbias, dy, x, Activation::gelu_tanh, Into::replace); });
  time(Pass::column_sums, [&](Backend& be) { be.sum_rows(dbias, dy, Into::replace); });
  time(Pass::rope, [&](Backend& be) { be.rope(y, position, table, 64, false); });
  const Tensor q = bench_.arena().take(DType::e4m3, {T, C}), scale = bench_.arena().take(DType::f32, {T});
  if (dtype == DType::bf16 || dtype == DType::f32)
    time(Pass::quantize, [&](Backend& be) { be.quantize_rows(q, scale, x); });
}

// Ids 0, 7, 14, ... spread over the table.
void Passes::vocabulary(DType dtype, std::int64_t T, std::int64_t C) {
  const ArenaScope scope(bench_.arena());
  const DType acc = accumulator_of(dtype);
  const std::int64_t V = bench_.options().quick ? 512 : 32000, rows = std::min<std::int64_t>(T, 8192);
  const Tensor ids = bench_.arena().take(DType::i32, {T});
  std::vector<std::int32_t> host(static_cast<std::size_t>(T));
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<std::int32_t>(i * 7 % static_cast<std::size_t>(V));
  bench_.backend().to_device(ids, host.data());
  const Tensor table = bench_.random(dtype, {V, C}, 1), y = bench_.zeros(dtype, {T, C});
  const Tensor dtable = bench_.zeros(acc, {V, C});
  time(Pass::embedding, [&](Backend& be) { be.embed(y, table, ids, 0, Into::replace); });
  time(Pass::embedding_backward, [&](Backend& be) { be.embed_backward(dtable, y, ids, 0); });
  const Tensor logits = bench_.random(dtype, {rows, V}, 1), loss = bench_.zeros(acc, {rows});
  const Tensor max = bench_.zeros(acc, {rows}), sum = bench_.zeros(acc, {rows}), picked = bench_.zeros(acc, {rows});
  CrossEntropy ce;
  ce.n_valid = V;
  time(Pass::loss,
       [&](Backend& be) { be.cross_entropy_whole(loss, logits, ids.slice_rows(0, rows), max, sum, picked, ce, true); });
}

void Passes::optimizer(DType dtype, std::int64_t T, std::int64_t C) {
  const ArenaScope scope(bench_.arena());
  const DType acc = accumulator_of(dtype);
  const std::int64_t n = T * C;
  const Tensor param = bench_.random(dtype, {n}, 0.02), grad = bench_.random(acc, {n}, 1);
  const Tensor master = dtype == acc ? param : bench_.zeros(acc, {n});
  const Tensor m = bench_.zeros(acc, {n}), v = bench_.zeros(acc, {n}), norm = bench_.zeros(DType::f64, {1});
  time(Pass::reduce, [&](Backend& be) { be.sum_of_squares(norm, grad); });
  bench_.backend().fill(norm, 1);
  time(Pass::adamw, [&](Backend& be) { be.adamw({param, master, m, v, grad}, {}, norm); });
}

void Passes::run(DType dtype, std::int64_t T, std::int64_t C) {
  elementwise(dtype, T, C);
  vocabulary(dtype, T, C);
  optimizer(dtype, T, C);
}

}  // namespace

void measure_passes(Bench& bench, Machine& machine) {
  const Options& options = bench.options();
  const bool cuda = options.kind == DeviceKind::cuda;
  const std::int64_t T = options.quick ? 256 : cuda ? 16384 : 1024, C = options.quick ? 256 : cuda ? 4096 : 768;
  Passes(bench, machine).run(storage_of(options.precisions.front()), T, C);
}

}  // namespace trireme::measure
