#pragma once
// The backend of one NVIDIA GPU: one compute stream on which every operation runs in order and returns at once.
// Private to src/device/cuda and src/comm/nccl. Operations live in one file per family; this class owns what they
// share.

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device/backend.h"

namespace trireme {

class Gemm;
class LibraryAttention;

// Pinned slots through which host memory is copied to the device: the caller's memory is free again on return.
class PinnedRing {
 public:
  explicit PinnedRing(cudaStream_t stream) : stream_(stream) {}
  ~PinnedRing();
  void to_device(std::byte* dst, const std::byte* host, std::size_t bytes);

 private:
  static constexpr std::size_t k_slot_bytes = std::size_t{8} << 20;
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t used = nullptr;
  };
  Slot& next_slot();

  cudaStream_t stream_;
  std::array<Slot, 4> slots_{};
  std::size_t next_ = 0;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(int local_rank, const CudaOptions& options);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  // --- shared by the families of operations and by the NCCL communicator
  int device() const { return device_; }
  int n_multiprocessors() const { return n_multiprocessors_; }
  std::size_t shared_per_block() const { return shared_per_block_; }  // bytes of shared memory a block may have
  cudaStream_t stream() const { return stream_; }
  const CudaOptions& options() const { return options_; }
  // Memory for the inside of one operation (the next operation reuses it). Grows in the first step and never after.
  std::byte* scratch(std::size_t bytes);
  bool capturing() const;  // into a CUDA graph: nothing may be allocated or timed
  // `waiting` continues only after everything enqueued on `signalling` so far.
  void hand_over(cudaStream_t signalling, cudaStream_t waiting, cudaEvent_t event) const;

  // --- Backend
  std::string describe() const override;
  std::size_t workspace_bytes() const override { return scratch_bytes_; }
  std::size_t memory_bytes() const override;
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void to_device(Tensor dst, const void* host) override;
  void to_host(void* host, Tensor src) override;
  void to_host_later(void* pinned, Tensor src) override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) noexcept override;
  bool first_calls_wait() const override { return true; }
  std::int64_t mark() override;
  double time_of(std::int64_t mark) override;
  void wait(std::int64_t mark) override;
  void synchronize() override;
  Counters& counters() override { return counters_; }
  void enter_range(const char* name) override;
  void leave_range() override;

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

  void add_norm(Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor residual_out_TC, Tensor x_TC, Tensor x_bias_C,
                Tensor residual_TC, Tensor rows_T, double p, const RandomKey& key, Tensor gain_C, Tensor bias_C,
                NormKind kind, double eps) override;
  void norm_quantize(Tensor q_TC, Tensor scale_T, Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor x_TC, Tensor gain_C,
                     Tensor bias_C, NormKind kind, double eps) override;
  void activation_quantize(Tensor q_TF, Tensor scale_T, Tensor y_TF, Tensor x, Activation kind) override;
  void activation_backward_quantize(Tensor q, Tensor scale_T, Tensor dx, Tensor db, Tensor dy_TF, Tensor x,
                                    Activation kind, Into into) override;
  void matmul_residual(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F, Tensor residual_TF) override;
  void cross_entropy_whole(Tensor loss_T, Tensor logits_TV, Tensor target_T, Tensor max_T, Tensor sum_T,
                           Tensor picked_T, const CrossEntropy& ce, bool backward) override;
  void matmul_activation(Tensor y_TF, Tensor before, Tensor x_TC, Tensor w, Tensor bias, Activation kind) override;
  void activation_backward_bias(Tensor dx, Tensor db, Tensor dy_TF, Tensor x, Activation kind, Into into) override;

 private:
  cudaEvent_t event_of(std::int64_t mark) const { return marks_[static_cast<std::size_t>(mark) % marks_.size()]; }
  void settle_epoch(std::int64_t epoch);

  int device_ = 0, n_multiprocessors_ = 1;
  std::size_t shared_per_block_ = 0;
  std::string device_name_;
  std::size_t device_bytes_ = 0;
  CudaOptions options_;
  cudaStream_t stream_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::unique_ptr<PinnedRing> ring_;
  std::vector<cudaEvent_t> marks_;
  std::int64_t next_mark_ = 0;
  // Every k_kept_marks-th mark begins an epoch and its time is kept in double: what an event measures is a float.
  std::int64_t settled_epoch_ = 0;
  double epoch_seconds_ = 0;  // of the settled epoch's first mark, from mark 0
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<LibraryAttention> library_attention_;  // null in builds without cuDNN
  Counters counters_;
};

}  // namespace trireme
