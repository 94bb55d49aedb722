// The backend that computes nothing: it hands out addresses nobody may touch and counts FLOPs, so that a run can be
// planned by its own layers. Memory is measured by the arenas.

#include <cstdlib>
#include <cstring>
#include <string>

#include "flops.h"
#include "trireme/base/check.h"
#include "trireme/device/arena.h"
#include "trireme/device/backend.h"

namespace trireme {

namespace {

class PlanBackend final : public Backend {
 public:
  explicit PlanBackend(DeviceKind as_if) : as_if_(as_if) {}
  std::string describe() const override {
    return as_if_ == DeviceKind::cuda ? "plan of a CUDA run" : "plan of a CPU run";
  }
  std::size_t workspace_bytes() const override { return 0; }

  std::byte* allocate(std::size_t bytes) override {
    const auto address = next_;
    next_ += static_cast<std::uintptr_t>(round_up(static_cast<std::int64_t>(bytes), k_alignment)) + k_alignment;
    return reinterpret_cast<std::byte*>(address);
  }
  void release(std::byte*) noexcept override {}
  void to_device(Tensor, const void*) override {}
  void to_host(void* host, Tensor src) override { std::memset(host, 0, src.bytes()); }
  void to_host_later(void* pinned, Tensor src) override { std::memset(pinned, 0, src.bytes()); }
  // Pinned memory is touched by the host, so it is real.
  std::byte* allocate_pinned(std::size_t bytes) override { return static_cast<std::byte*>(std::malloc(bytes)); }
  void release_pinned(std::byte* memory) noexcept override { std::free(memory); }
  std::int64_t mark() override { return 0; }
  double time_of(std::int64_t) override { return 0; }
  void wait(std::int64_t) override {}
  void synchronize() override {}
  Counters& counters() override { return counters_; }

  void fill(Tensor, double) override {}
  void fill_normal(Tensor, const NormalFill&) override {}
  void copy(Tensor, Tensor) override {}
  void add(Tensor, Tensor) override {}
  void scale(Tensor, double) override {}
  void dropout_add(Tensor, Tensor, Tensor, Tensor, Tensor, double, const RandomKey&) override {}
  void dropout_backward(Tensor, Tensor, Tensor, double, const RandomKey&) override {}

  void matmul(Tensor y_TF, Tensor x_TC, Tensor, Tensor) override { count(y_TF.rows(), y_TF.columns(), x_TC.columns()); }
  void matmul_dx(Tensor dx_TC, Tensor dy_TF, Tensor) override { count(dy_TF.rows(), dy_TF.columns(), dx_TC.columns()); }
  void matmul_dw(Tensor, Tensor dy_TF, Tensor x_TC, Into) override {
    count(dy_TF.rows(), dy_TF.columns(), x_TC.columns());
  }
  void sum_rows(Tensor, Tensor, Into) override {}
  void quantize_rows(Tensor, Tensor, Tensor) override {}
  void transpose_quantized(Tensor, Tensor, Tensor, Tensor) override {}
  void matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor, Tensor, Tensor, Tensor, Tensor, Accumulation) override {
    count(d_MN.rows(), d_MN.columns(), a_MK.columns());
  }

  void norm(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, NormKind, double) override {}
  void norm_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, NormKind, Into) override {}
  void head_norm(Tensor, Tensor, Tensor, Tensor, double) override {}
  void head_norm_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Into) override {}
  void activation(Tensor, Tensor, Activation) override {}
  void activation_backward(Tensor, Tensor, Tensor, Activation) override {}
  void rope(Tensor, Tensor, Tensor, std::int64_t, bool) override {}

  void attention(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, const AttentionShape& shape) override {
    counters_.attention_flops += attention_forward_flops(shape);
  }
  void attention_merge(Tensor, Tensor, Tensor, Tensor, const AttentionShape&) override {}
  void attention_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
                          const AttentionShape& shape, Into) override {
    counters_.attention_flops += attention_backward_flops(shape);
  }

  void embed(Tensor, Tensor, Tensor, std::int64_t, Into) override {}
  void embed_backward(Tensor, Tensor, Tensor, std::int64_t) override {}
  void softmax_stats(Tensor, Tensor, Tensor, Tensor, Tensor, const CrossEntropy&) override {}
  void softmax_rescale(Tensor, Tensor, Tensor) override {}
  void cross_entropy(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, const CrossEntropy&, bool) override {}
  void sum(Tensor, Tensor) override {}
  void sum_of_squares(Tensor, Tensor) override {}
  void adamw(const AdamWTensors&, const AdamWStep&, Tensor) override {}

 private:
  void count(std::int64_t T, std::int64_t F, std::int64_t C) { counters_.matmul_flops += matmul_flops(T, F, C); }

  DeviceKind as_if_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  Counters counters_;
};

}  // namespace

std::unique_ptr<Backend> make_plan_backend(DeviceKind as_if) {
  return std::make_unique<PlanBackend>(as_if);
}

}  // namespace trireme
