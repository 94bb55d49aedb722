#pragma once
// What the measurements share: memory for operands, timing, and the bytes that the plan counts for an operation.

#include <functional>
#include <string>

#include "measure.h"
#include "timing.h"

namespace trireme::measure {

inline DType storage_of(const std::string& precision) {
  if (precision == "fp64") return DType::f64;
  if (precision == "fp32") return DType::f32;
  return precision == "fp16" ? DType::f16 : DType::bf16;
}

// What the meter hears of an operation that also runs on the device: both sides count the same bytes.
class Bytes final : public Meter {
 public:
  void pass(Pass, double bytes) override { bytes_ += bytes; }
  void attention(const AttentionShape&, DType, double flops) override { flops_ += flops; }
  void attention_backward(const AttentionShape&, DType, double flops) override { flops_ += flops; }
  double bytes_ = 0, flops_ = 0;
};

using Operation = std::function<void(Backend&)>;

class Bench {
 public:
  Bench(Backend& backend, const Options& options)
      : backend_(backend), options_(options), arena_(backend, "measurements", arena_bytes(options)) {}

  Tensor random(DType dtype, Shape shape, double std) {
    const Tensor x = arena_.take(dtype, shape);
    backend_.fill_normal(x, {{1, n_tensors_++, 0}, 0, 0, shape.columns(), std});
    return x;
  }
  Tensor zeros(DType dtype, Shape shape) {
    const Tensor x = arena_.take(dtype, shape);
    backend_.fill(x, 0);
    return x;
  }
  double seconds(const Operation& operation) {
    return time_alone(
        backend_, [&] { operation(backend_); }, options_.seconds);
  }
  Bytes counted(const Operation& operation) const {
    Bytes bytes;
    operation(*make_plan_backend(options_.kind, bytes));
    return bytes;
  }
  Backend& backend() { return backend_; }
  Arena& arena() { return arena_; }
  const Options& options() const { return options_; }

 private:
  static std::size_t arena_bytes(const Options& options) {
    if (options.quick) return std::size_t{1} << 28;
    return options.kind == DeviceKind::cuda ? std::size_t{24} << 30 : std::size_t{2} << 30;
  }
  Backend& backend_;
  const Options& options_;
  Arena arena_;
  std::uint32_t n_tensors_ = 0;
};

// q, k and v of one call side by side, as the fused projection leaves them.
AttentionShape attention_shape(std::int64_t n_sequences, std::int64_t heads, std::int64_t head_dim,
                               std::int64_t sequence);
struct AttentionTensors {
  Tensor qkv, out, dqkv, lse;
  AttentionShape shape;
  std::int64_t columns() const { return shape.query_heads * shape.head_dim; }
  Tensor part(const Tensor& all, std::int64_t i) const { return all.slice_columns(i * columns(), columns()); }
  void forward(Backend& be) const { be.attention(out, lse, part(qkv, 0), part(qkv, 1), part(qkv, 2), Tensor{}, shape); }
  void backward(Backend& be) const {
    be.attention_backward(part(dqkv, 0), part(dqkv, 1), part(dqkv, 2), out, out, lse, part(qkv, 0), part(qkv, 1),
                          part(qkv, 2), Tensor{}, shape, Into::replace);
  }
};

AttentionTensors attention_tensors(Bench& bench, DType dtype, const AttentionShape& shape);

void measure_products(Bench& bench, Machine& machine);
void measure_attention(Bench& bench, Machine& machine);
void measure_passes(Bench& bench, Machine& machine);

}  // namespace trireme::measure
