#pragma once
// FLOPs of the two expensive operations, counted alike by every backend. Documents are not looked at.

#include <cstdint>

#include "trireme/device/backend.h"

namespace trireme {

inline double matmul_flops(std::int64_t T, std::int64_t F, std::int64_t C) {
  return 2.0 * static_cast<double>(T) * static_cast<double>(F) * static_cast<double>(C);
}

// (query, key) pairs of one sequence and one head that the causal mask and the window leave visible. O(1).
double visible_pairs(const AttentionShape& shape);

// Multiply-adds of q k^T and p v, and of the five products of the backward pass.
double attention_forward_flops(const AttentionShape& shape);
double attention_backward_flops(const AttentionShape& shape);

}  // namespace trireme
