#pragma once
// Memory that the CUDA backend holds for itself, as far as a plan can know it: the workspace of cuBLASLt, and in
// attention through cuDNN 16-bit stand-ins (device/cuda/stand_in.h) and cuDNN's own workspace. The latter is what
// cuDNN 9.14 was seen to ask for on Hopper: the gradient of q in f32 and a sum per query and head.

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/device/backend.h"

namespace trireme {

class CudaWorkspace {
 public:
  static constexpr std::size_t k_blas = std::size_t{64} << 20, k_step = std::size_t{2} << 20;

  std::size_t bytes() const { return bytes_; }

  void attention(const Tensor& out, const Tensor& q) {
    if (in_library(q)) need(k_offset + stand_in(out, q, false));
  }
  void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dout, const Tensor& out,
                          const Tensor& lse, const Tensor& q, const AttentionShape& s, Into into) {
    if (!in_library(q)) return;
    const bool adds = into == Into::add;
    std::int64_t used = k_offset + stand_in(out, q, false) + stand_in(dout, q, false) + stand_in(dq, q, adds) +
                        stand_in(dk, q, adds) + stand_in(dv, q, adds);
    if (lse.pitch != s.q_rows) used += round_up(lse.rows() * s.q_rows * 4, k_offset);
    const std::int64_t queries = s.n_sequences * s.query_heads * s.q_rows;
    need(used + 4 * queries * s.head_dim + 4 * queries);
  }

 private:
  static constexpr std::int64_t k_offset = 256;

  static bool in_library(const Tensor& q) { return q.dtype == DType::bf16 || q.dtype == DType::f16; }
  static std::int64_t stand_in(const Tensor& x, const Tensor& q, bool adds) {
    if (x.dtype == q.dtype && !adds) return 0;
    return round_up(x.rows() * x.columns() * static_cast<std::int64_t>(size_of(q.dtype)), k_offset);
  }
  void need(std::int64_t bytes) {
    bytes_ = std::max(bytes_, static_cast<std::size_t>(round_up(bytes, static_cast<std::int64_t>(k_step))));
  }

  std::size_t bytes_ = k_blas;
};

}  // namespace trireme
