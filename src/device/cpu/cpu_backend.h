#pragma once
// The backend of processors, and the specification of backend.h: f64 is computed in double, every other storage type in
// float; each result is rounded once, when stored; sums over many elements are kept in double and added in an order
// that does not depend on the number of threads. Products go to OpenBLAS. The methods are in one file per family.

#include <array>
#include <string>

#include "trireme/device/backend.h"
#include "workspace.h"

namespace trireme::cpu {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int n_threads);
  std::string describe() const override;
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }
  std::size_t memory_bytes() const override;
  bool host_memory() const override { return true; }

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void to_device(Tensor dst, const void* host) override;
  void to_host(void* host, Tensor src) override;
  void to_host_later(void* pinned, Tensor src) override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) noexcept override;
  std::int64_t mark() override;
  double time_of(std::int64_t mark) override;
  void wait(std::int64_t) override {}
  void synchronize() override {}
  Counters& counters() override { return counters_; }

  void fill(Tensor x, double value) override;
  void fill_normal(Tensor x_RC, const NormalFill& fill) override;
  void copy(Tensor dst, Tensor src) override;
  void add(Tensor y, Tensor x) override;
  void scale(Tensor x, double factor) override;
  void dropout_add(Tensor y_TC, Tensor x_TC, Tensor bias_C, Tensor residual_TC, Tensor rows_T, double p,
                   const RandomKey& key) override;
  void dropout_backward(Tensor dx_TC, Tensor dy_TC, Tensor rows_T, double p, const RandomKey& key) override;

  void matmul(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F) override;
  void matmul_dx(Tensor dx_TC, Tensor dy_TF, Tensor w_FC) override;
  void matmul_dw(Tensor dw_FC, Tensor dy_TF, Tensor x_TC, Into into) override;
  void sum_rows(Tensor db_F, Tensor dy_TF, Into into) override;
  void quantize_rows(Tensor q_RC, Tensor scale_R, Tensor x_RC) override;
  void quantize_blocks(Tensor q_RC, Tensor scale, Tensor x_RC, Scales scales) override;
  void largest_magnitude(Tensor out_1, Tensor x_RC) override;
  void scale_for(Tensor scale_1, Tensor largest_1, DType format, Scales scales) override;
  void quantize(Tensor q_RC, Tensor x_RC, Tensor scale_1) override;
  void transpose_quantized(Tensor q_CR, Tensor scale, Tensor q_RC, Tensor scale_R) override;
  void matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor a_scale, Tensor b_NK, Tensor b_scale, Tensor bias_N,
                     Tensor addend_MN, Accumulation accumulation) override;

  void norm(Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor x_TC, Tensor gain_C, Tensor bias_C, NormKind kind,
            double eps) override;
  void norm_backward(Tensor dx_TC, Tensor dgain_C, Tensor dbias_C, Tensor dy_TC, Tensor x_TC, Tensor mean_T,
                     Tensor rstd_T, Tensor gain_C, NormKind kind, Into into) override;
  void head_norm(Tensor y, Tensor rstd_TH, Tensor x, Tensor gain_D, double eps) override;
  void head_norm_backward(Tensor dx, Tensor dgain_D, Tensor dy, Tensor x, Tensor rstd_TH, Tensor gain_D,
                          Into into) override;

  void activation(Tensor y_TF, Tensor x, Activation kind) override;
  void activation_backward(Tensor dx, Tensor dy_TF, Tensor x, Activation kind) override;
  void rope(Tensor x, Tensor position_T, Tensor table, std::int64_t head_dim, bool backward) override;

  void attention(Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor doc_start_T,
                 const AttentionShape& shape) override;
  void attention_merge(Tensor out, Tensor lse, Tensor part_out, Tensor part_lse, const AttentionShape& shape) override;
  void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q, Tensor k,
                          Tensor v, Tensor doc_start_T, const AttentionShape& shape, Into into) override;

  void embed(Tensor y_TC, Tensor table_VC, Tensor ids_T, std::int64_t first_row, Into into) override;
  void embed_backward(Tensor dtable_VC, Tensor dy_TC, Tensor ids_T, std::int64_t first_row) override;

  void softmax_stats(Tensor max_T, Tensor sum_T, Tensor picked_T, Tensor logits_TV, Tensor target_T,
                     const CrossEntropy& ce) override;
  void softmax_rescale(Tensor sum_T, Tensor local_max_T, Tensor global_max_T) override;
  void cross_entropy(Tensor loss_T, Tensor logits_TV, Tensor target_T, Tensor max_T, Tensor sum_T, Tensor picked_T,
                     const CrossEntropy& ce, bool backward) override;

  void sum(Tensor out_1, Tensor x) override;
  void sum_of_squares(Tensor out_1, Tensor x) override;
  void adamw(const AdamWTensors& tensors, const AdamWStep& step, Tensor norm_sq_1) override;

 private:
  int n_threads_;
  Workspace workspace_;
  std::array<double, k_kept_marks> mark_times_{};  // of the newest marks
  std::int64_t n_marks_ = 0;
  Counters counters_;
};

}  // namespace trireme::cpu
