#include "flops.h"

#include <algorithm>

namespace trireme {

namespace {

// sum over x = 0..last of min(x, limit)
double sum_up_to(std::int64_t last, std::int64_t limit) {
  if (last <= 0) return 0;
  const double n = static_cast<double>(last), k = static_cast<double>(limit);
  return last <= limit ? n * (n + 1) / 2 : k * (k + 1) / 2 + (n - k) * k;
}

// sum over n consecutive x from `first` of clamp(x, 0, limit)
double sum_clamped(std::int64_t first, std::int64_t n, std::int64_t limit) {
  return sum_up_to(first + n - 1, limit) - sum_up_to(first - 1, limit);
}

double pairs_of_all_heads(const AttentionShape& shape) {
  return visible_pairs(shape) * static_cast<double>(shape.n_sequences * shape.query_heads * shape.head_dim);
}

}  // namespace

// A query at distance x from the first key sees clamp(x + 1, 0, K) keys, less those that the window has left behind.
double visible_pairs(const AttentionShape& shape) {
  const std::int64_t x = shape.first_q - shape.first_k;
  const double causal = sum_clamped(x + 1, shape.q_rows, shape.k_rows);
  return shape.window == 0 ? causal : causal - sum_clamped(x + 1 - shape.window, shape.q_rows, shape.k_rows);
}

double attention_forward_flops(const AttentionShape& shape) {
  return 4.0 * pairs_of_all_heads(shape);
}
double attention_backward_flops(const AttentionShape& shape) {
  return 10.0 * pairs_of_all_heads(shape);
}

}  // namespace trireme
