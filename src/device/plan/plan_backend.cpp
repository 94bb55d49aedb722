// The backend that computes nothing: it hands out addresses nobody may touch, counts FLOPs and tells a meter what each
// operation asks for, so that a run can be planned by its own layers. Memory is measured by the arenas.

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_workspace.h"
#include "flops.h"
#include "trireme/base/check.h"
#include "trireme/device/arena.h"
#include "trireme/device/meter.h"

namespace trireme {

namespace {

double bytes_of(const Tensor& x) {
  return x ? static_cast<double>(x.bytes()) : 0;
}

template <class... More>
double bytes_of(const Tensor& x, const More&... more) {
  return bytes_of(x) + bytes_of(more...);
}

class PlanBackend final : public Backend {
 public:
  PlanBackend(DeviceKind as_if, Meter* meter) : as_if_(as_if), meter_(meter == nullptr ? nobody_ : *meter) {}
  std::string describe() const override { return cuda() ? "plan of a CUDA run" : "plan of a CPU run"; }
  std::size_t workspace_bytes() const override { return cuda() ? workspace_.bytes() : 0; }

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
  std::int64_t mark() override {
    marks_[static_cast<std::size_t>(++n_marks_ % k_kept_marks)] = meter_.now();
    return n_marks_;
  }
  double time_of(std::int64_t mark) override { return marks_[static_cast<std::size_t>(mark % k_kept_marks)]; }
  void wait(std::int64_t) override {}
  void synchronize() override {}
  Counters& counters() override { return counters_; }

  void fill(Tensor x, double) override { pass(Pass::elementwise, bytes_of(x)); }
  void fill_normal(Tensor x, const NormalFill&) override { pass(Pass::elementwise, bytes_of(x)); }
  void copy(Tensor dst, Tensor src) override { pass(Pass::elementwise, bytes_of(dst, src)); }
  void add(Tensor y, Tensor x) override { pass(Pass::elementwise, bytes_of(y, y, x)); }
  void scale(Tensor x, double) override { pass(Pass::elementwise, bytes_of(x, x)); }
  void dropout_add(Tensor y, Tensor x, Tensor, Tensor residual, Tensor, double, const RandomKey&) override {
    pass(Pass::elementwise, bytes_of(y, x, residual));
  }
  void dropout_backward(Tensor dx, Tensor dy, Tensor, double, const RandomKey&) override {
    pass(Pass::elementwise, bytes_of(dx, dy));
  }

  void matmul(Tensor y_TF, Tensor x_TC, Tensor, Tensor) override {
    product({ProductKind::forward, y_TF.rows(), y_TF.columns(), x_TC.columns(), x_TC.dtype});
  }
  void matmul_dx(Tensor dx_TC, Tensor dy_TF, Tensor) override {
    product({ProductKind::dx, dy_TF.rows(), dy_TF.columns(), dx_TC.columns(), dy_TF.dtype});
  }
  void matmul_dw(Tensor, Tensor dy_TF, Tensor x_TC, Into) override {
    product({ProductKind::dw, dy_TF.rows(), dy_TF.columns(), x_TC.columns(), dy_TF.dtype});
  }
  // A GPU adds the residual as it stores the product.
  void matmul_residual(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F, Tensor residual_TF) override {
    if (!cuda()) return Backend::matmul_residual(y_TF, x_TC, w_FC, bias_F, residual_TF);
    matmul(y_TF, x_TC, w_FC, bias_F);
    pass(Pass::elementwise, bytes_of(residual_TF));
  }
  void sum_rows(Tensor, Tensor dy_TF, Into) override { pass(Pass::column_sums, bytes_of(dy_TF)); }
  void quantize_rows(Tensor q, Tensor, Tensor x) override { pass(Pass::quantize, bytes_of(q, x)); }
  void quantize_blocks(Tensor q, Tensor, Tensor x, Scales) override { pass(Pass::quantize, bytes_of(q, x)); }
  void largest_magnitude(Tensor, Tensor x) override { pass(Pass::reduce, bytes_of(x)); }
  void scale_for(Tensor, Tensor, DType, Scales) override {}
  void quantize(Tensor q, Tensor x, Tensor) override { pass(Pass::quantize, bytes_of(q, x)); }
  void transpose_quantized(Tensor q_CR, Tensor, Tensor q_RC, Tensor) override {
    pass(Pass::quantize, bytes_of(q_CR, q_RC));
  }
  // A dw has operands that were turned so that T runs along both: two in blocks, or two with one scale each and a
  // result like those of gradients.
  void matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor a_scale, Tensor b_NK, Tensor b_scale, Tensor, Tensor addend_MN,
                     Accumulation) override {
    const std::int64_t M = d_MN.rows(), N = d_MN.columns(), K = a_MK.columns();
    const Scaling scaling = scaling_of(b_NK, b_scale);
    const bool of_gradient = d_MN.dtype == DType::f32 || (addend_MN && addend_MN.data == d_MN.data);
    if (scaling == Scaling::block || (a_scale.count() == 1 && of_gradient))
      product({ProductKind::dw, K, M, N, a_MK.dtype});
    else
      product({a_MK.dtype == DType::e5m2 ? ProductKind::dx : ProductKind::forward, M, N, K, b_NK.dtype});
    if (addend_MN && addend_MN.data != d_MN.data) pass(Pass::elementwise, bytes_of(addend_MN));
  }

  void norm(Tensor y, Tensor, Tensor, Tensor x, Tensor, Tensor, NormKind, double) override {
    pass(Pass::norm, bytes_of(y, x));
  }
  void norm_backward(Tensor dx, Tensor, Tensor, Tensor dy, Tensor x, Tensor, Tensor, Tensor, NormKind, Into) override {
    pass(Pass::norm_backward, bytes_of(dx, dx, dy, x));
  }
  void head_norm(Tensor y, Tensor, Tensor x, Tensor, double) override { pass(Pass::norm, bytes_of(y, x)); }
  void head_norm_backward(Tensor dx, Tensor, Tensor dy, Tensor x, Tensor, Tensor, Into) override {
    pass(Pass::norm_backward, bytes_of(dx, dy, x));
  }
  void activation(Tensor y, Tensor x, Activation) override { pass(Pass::activation, bytes_of(y, x)); }
  void activation_backward(Tensor dx, Tensor dy, Tensor x, Activation) override {
    pass(Pass::activation_backward, bytes_of(dx, dy, x));
  }
  void rope(Tensor x, Tensor, Tensor, std::int64_t, bool) override { pass(Pass::rope, bytes_of(x, x)); }

  void attention(Tensor out, Tensor, Tensor q, Tensor, Tensor, Tensor doc_start_T,
                 const AttentionShape& shape) override {
    if (!doc_start_T) workspace_.attention(out, q);
    const double flops = attention_forward_flops(shape);
    counters_.attention_flops += flops;
    meter_.attention(shape, q.dtype, flops);
  }
  void attention_merge(Tensor, Tensor, Tensor part_out, Tensor, const AttentionShape& shape) override {
    const double rows = static_cast<double>(shape.n_sequences * shape.q_rows);
    const double row =
        static_cast<double>(shape.query_heads * shape.head_dim) * static_cast<double>(size_of(part_out.dtype));
    pass(Pass::elementwise, 3 * rows * row);
  }
  void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q, Tensor,
                          Tensor, Tensor doc_start_T, const AttentionShape& shape, Into into) override {
    if (!doc_start_T) workspace_.attention_backward(dq, dk, dv, dout, out, lse, q, shape, into);
    const double flops = attention_backward_flops(shape);
    counters_.attention_flops += flops;
    meter_.attention_backward(shape, q.dtype, flops);
  }

  void embed(Tensor y, Tensor, Tensor, std::int64_t, Into into) override {
    pass(Pass::embedding, bytes_of(y, y) + (into == Into::add ? bytes_of(y) : 0));
  }
  void embed_backward(Tensor, Tensor dy, Tensor, std::int64_t) override {
    pass(Pass::embedding_backward, bytes_of(dy));
  }
  void softmax_stats(Tensor, Tensor, Tensor, Tensor logits, Tensor, const CrossEntropy&) override {
    pass(Pass::loss, bytes_of(logits));
  }
  void softmax_rescale(Tensor, Tensor, Tensor) override {}
  void cross_entropy(Tensor, Tensor logits, Tensor, Tensor, Tensor, Tensor, const CrossEntropy&,
                     bool backward) override {
    if (backward) pass(Pass::loss, bytes_of(logits, logits));
  }
  // A GPU reads the logits once for both halves.
  void cross_entropy_whole(Tensor loss, Tensor logits, Tensor target, Tensor max, Tensor sum, Tensor picked,
                           const CrossEntropy& ce, bool backward) override {
    if (!cuda()) return Backend::cross_entropy_whole(loss, logits, target, max, sum, picked, ce, backward);
    pass(Pass::loss, backward ? bytes_of(logits, logits) : bytes_of(logits));
  }
  void sum(Tensor, Tensor x) override { pass(Pass::reduce, bytes_of(x)); }
  void sum_of_squares(Tensor, Tensor x) override { pass(Pass::reduce, bytes_of(x)); }
  void adamw(const AdamWTensors& t, const AdamWStep&, Tensor) override {
    const double master = t.master.data == t.param.data ? 0 : bytes_of(t.master);
    pass(Pass::adamw, 2 * bytes_of(t.param, t.m, t.v) + 2 * master + bytes_of(t.grad));
  }

  // Fused on GPUs: what the parts would hand to each other through memory is not written.
  void norm_quantize(Tensor q, Tensor scale, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias,
                     NormKind kind, double eps) override {
    if (!cuda()) return Backend::norm_quantize(q, scale, y, mean, rstd, x, gain, bias, kind, eps);
    pass(Pass::norm, bytes_of(q, x));
  }
  void activation_quantize(Tensor q, Tensor scale, Tensor y, Tensor x, Activation kind) override {
    if (!cuda()) return Backend::activation_quantize(q, scale, y, x, kind);
    pass(Pass::activation, bytes_of(q, x));
  }
  void activation_backward_quantize(Tensor q, Tensor scale, Tensor dx, Tensor db, Tensor dy, Tensor x, Activation kind,
                                    Into into) override {
    if (!cuda()) return Backend::activation_backward_quantize(q, scale, dx, db, dy, x, kind, into);
    pass(Pass::activation_backward, bytes_of(q, dy, x));
  }
  void activation_backward_bias(Tensor dx, Tensor db, Tensor dy, Tensor x, Activation kind, Into into) override {
    if (!cuda()) return Backend::activation_backward_bias(dx, db, dy, x, kind, into);
    pass(Pass::activation_backward, bytes_of(dx, dy, x));
  }

 private:
  bool cuda() const { return as_if_ == DeviceKind::cuda; }
  void pass(Pass kind, double bytes) { meter_.pass(kind, bytes); }
  void product(const Product& p) {
    counters_.matmul_flops += matmul_flops(p.T, p.F, p.C);
    meter_.product(p);
  }

  DeviceKind as_if_;
  CudaWorkspace workspace_;
  Meter nobody_;
  Meter& meter_;
  std::vector<double> marks_ = std::vector<double>(k_kept_marks);
  std::int64_t n_marks_ = 0;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  Counters counters_;
};

}  // namespace

const char* name_of(Pass pass) {
  constexpr const char* names[k_n_passes] = {
      "elementwise", "norm",   "norm_backward", "activation",         "activation_backward",
      "column_sums", "rope",   "embedding",     "embedding_backward", "loss",
      "quantize",    "reduce", "adamw"};
  return names[static_cast<std::size_t>(pass)];
}

const char* name_of(ExchangeKind kind) {
  constexpr const char* names[k_n_exchanges] = {"all_reduce", "all_gather", "reduce_scatter",
                                                "broadcast",  "shift",      "send"};
  return names[static_cast<std::size_t>(kind)];
}

std::unique_ptr<Backend> make_plan_backend(DeviceKind as_if) {
  return std::make_unique<PlanBackend>(as_if, nullptr);
}

std::unique_ptr<Backend> make_plan_backend(DeviceKind as_if, Meter& meter) {
  return std::make_unique<PlanBackend>(as_if, &meter);
}

}  // namespace trireme
