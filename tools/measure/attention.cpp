// Causal attention, forward and backward.
#include "bench.h"
#include "trireme/base/log.h"

namespace trireme::measure {

AttentionShape attention_shape(std::int64_t n_sequences, std::int64_t heads, std::int64_t head_dim,
                               std::int64_t sequence) {
  AttentionShape shape;
  shape.n_sequences = n_sequences;
  shape.query_heads = shape.kv_heads = heads;
  shape.head_dim = head_dim;
  shape.q_rows = shape.q_stride = shape.k_rows = shape.k_stride = sequence;
  shape.scale = 0.1;
  return shape;
}

AttentionTensors attention_tensors(Bench& bench, DType dtype, const AttentionShape& shape) {
  const std::int64_t T = shape.n_sequences * shape.q_rows, columns = shape.query_heads * shape.head_dim;
  AttentionTensors tensors{
      bench.random(dtype, {T, 3 * columns}, 1), bench.zeros(dtype, {T, columns}), bench.zeros(dtype, {T, 3 * columns}),
      bench.zeros(accumulator_of(dtype), {shape.n_sequences * shape.query_heads, shape.q_rows}), shape};
  return tensors;
}

void measure_attention(Bench& bench, Machine& machine) {
  const Options& options = bench.options();
  const bool cuda = options.kind == DeviceKind::cuda;
  const std::int64_t tokens = options.quick ? 256
                              : cuda        ? 16384
                                            : 1024,
                     channels = options.quick ? 128
                                : cuda        ? 2048
                                              : 768;
  std::vector<std::int64_t> sequences = {1024, 2048, 4096, 8192, 16384};
  if (!cuda) sequences = {256, 512, 1024};
  if (options.quick) sequences = {64, 256};
  for (const std::string& precision : options.precisions) {
    if (precision == "fp8") continue;
    machine.attention[precision].clear();
    for (const std::int64_t head_dim : {64, 128}) {
      for (const std::int64_t sequence : sequences) {
        const ArenaScope scope(bench.arena());
        const AttentionShape shape = attention_shape(tokens / sequence, channels / head_dim, head_dim, sequence);
        const AttentionTensors a = attention_tensors(bench, storage_of(precision), shape);
        const Operation forward = [&](Backend&be) { a.forward(be); }, backward = [&](Backend&be) { a.backward(be); };
        machine.attention[precision].push_back({head_dim, sequence,
                                                bench.counted(forward).flops_ / bench.seconds(forward),
                                                bench.counted(backward).flops_ / bench.seconds(backward)});
        const AttentionRates& r = machine.attention[precision].back();
        log().info(format("attention %s head %lld, sequence %lld  %8.2f %8.2f TFLOP/s", precision.c_str(),
                          static_cast<long long>(head_dim), static_cast<long long>(sequence), r.forward / 1e12,
                          r.backward / 1e12));
      }
    }
  }
}

}  // namespace trireme::measure
