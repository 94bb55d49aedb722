// One device: all of the above, what is lost between operations, and what is lost under load.
#include "bench.h"
#include "trireme/base/log.h"

namespace trireme::measure {

namespace {

double launch_seconds(Bench& bench) {
  const ArenaScope scope(bench.arena());
  const Tensor x = bench.zeros(DType::f32, {64});
  return bench.seconds([&](Backend& be) { be.fill(x, 0); });
}

// The operations of a layer one after the other for a few seconds, against the same timed alone.
double sustained_rate(Bench& bench, DType dtype) {
  const Options& options = bench.options();
  const bool cuda = options.kind == DeviceKind::cuda;
  const std::int64_t T = options.quick ? 128 : cuda ? 16384 : 512, C = options.quick ? 128 : cuda ? 4096 : 768;
  const ArenaScope scope(bench.arena());
  const Tensor x = bench.random(dtype, {T, C}, 1), w = bench.random(dtype, {4 * C, C}, 0.02);
  const Tensor y = bench.random(dtype, {T, 4 * C}, 1), dx = bench.zeros(dtype, {T, C});
  const Tensor dw = bench.zeros(accumulator_of(dtype), {4 * C, C});
  const std::int64_t sequence = options.quick ? 64 : cuda ? 2048 : 256;
  const AttentionTensors a = attention_tensors(bench, dtype, attention_shape(T / sequence, C / 128, 128, sequence));
  const std::vector<Operation> layer = {
      [&](Backend& be) { be.matmul(y, x, w, Tensor{}); }, [&](Backend& be) { a.forward(be); },
      [&](Backend& be) { be.matmul_dx(dx, y, w); }, [&](Backend& be) { be.matmul_dw(dw, y, x, Into::add); },
      [&](Backend& be) { a.backward(be); }};
  double alone = 0;
  for (const Operation& operation : layer) {
    bench.backend().synchronize();
    alone += bench.seconds(operation);
  }
  const auto all = [&] {
    for (const Operation& operation : layer) operation(bench.backend());
  };
  const double warm_up = cuda && !options.quick ? 3 : options.seconds;
  time_alone(bench.backend(), all, warm_up);
  return alone / time_alone(bench.backend(), all, warm_up);
}

}  // namespace

void measure_device(Backend& backend, const Options& options, Machine& machine) {
  Bench bench(backend, options);
  machine.launch = launch_seconds(bench);
  measure_passes(bench, machine);
  measure_attention(bench, machine);
  measure_products(bench, machine);
  machine.sustained = std::min(1.0, sustained_rate(bench, storage_of(options.precisions.front())));
  log().info(format("sustained rate %.3f of the rates above", machine.sustained));
}

void set_peaks(Machine& machine, double known_peak) {
  for (const auto& [precision, points] : machine.gemm) {
    double& peak = machine.peak[precision];
    if (known_peak > 0 && (precision == "bf16" || precision == "fp16")) peak = known_peak;
    if (known_peak > 0 && precision == "fp8") peak = 2 * known_peak;
    for (const GemmRates& r : points) peak = std::max({peak, r.forward, r.dx, r.dw});
  }
}

}  // namespace trireme::measure
