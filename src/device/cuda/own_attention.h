#pragma once
// Our own tiled attention: every mask, offset and dtype of the contract at modest speed, the same bits in every run.

#include <cuda_runtime.h>

#include "library_attention.h"

namespace trireme {

void own_attention(cudaStream_t stream, const AttentionTensors& t, Tensor doc_start_T, const AttentionShape& shape);
void own_attention_backward(cudaStream_t stream, const AttentionTensors& t, Tensor doc_start_T,
                            const AttentionShape& shape, Into into);

}  // namespace trireme
