// Attention: the vendor's library where it can, our own kernels for the rest of the contract.

#include "../plan/flops.h"
#include "check.h"
#include "cuda_backend.h"
#include "own_attention.h"

namespace trireme {

namespace {
void check_heads(const AttentionTensors& t, const AttentionShape& shape) {
  require(shape.query_heads % shape.kv_heads == 0, "attention() needs query heads to be a multiple of key heads");
  require(t.q.columns() == shape.query_heads * shape.head_dim && t.k.columns() == shape.kv_heads * shape.head_dim,
          "attention(): q and k do not have heads * head_dim columns");
  for (const Tensor& x : {t.q, t.k, t.v, t.out}) {
    if (x.dtype != DType::f32 && x.dtype != DType::bf16 && x.dtype != DType::f16) {
      throw Error(Exit::usage,
                  std::string("CUDA has no attention() for ") + name_of(x.dtype) +
                      ": set precision.compute to \"fp32\", \"bf16\" or \"fp16\", or device.kind = \"cpu\"");
    }
  }
}
}  // namespace

void CudaBackend::attention(Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor doc_start_T,
                            const AttentionShape& shape) {
  AttentionTensors t;
  t.q = q;
  t.k = k;
  t.v = v;
  t.out = out;
  t.lse = lse;
  if (shape.n_sequences == 0 || shape.q_rows == 0) return;
  check_heads(t, shape);
  counters_.attention_flops += attention_forward_flops(shape);
  if (!doc_start_T && library_attention_ && library_attention_->forward(t, shape)) return;
  own_attention(stream_, t, doc_start_T, shape);
}

void CudaBackend::attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                                     Tensor k, Tensor v, Tensor doc_start_T, const AttentionShape& shape, Into into) {
  AttentionTensors t;
  t.q = q;
  t.k = k;
  t.v = v;
  t.out = out;
  t.lse = lse;
  t.dout = dout;
  t.dq = dq;
  t.dk = dk;
  t.dv = dv;
  if (shape.n_sequences == 0 || (shape.q_rows == 0 && shape.k_rows == 0)) return;
  check_heads(t, shape);
  counters_.attention_flops += attention_backward_flops(shape);
  if (!doc_start_T && library_attention_ && library_attention_->backward(t, shape, into)) return;
  own_attention_backward(stream_, t, doc_start_T, shape, into);
}

}  // namespace trireme
