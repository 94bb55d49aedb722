// Legend: lse = log(sum) + max; p = exp(logit - lse). Columns from n_valid on are padding: probability and gradient 0.

#include <cmath>
#include <limits>

#include "cpu_backend.h"
#include "parallel.h"
#include "reduce.h"
#include "storage.h"
#include "vector_math.h"

namespace trireme::cpu {

namespace {

// The sum stays short enough for R: callers add the pieces in double.
template <class R>
R sum_exp_run(const R* x, R shift, std::int64_t n) {
  return lane_sum<R>(n, [x, shift](std::int64_t i) { return vexp(x[i] - shift); });
}

// The target's local column, or -1 when it is masked or another rank's.
std::int64_t local_target(const Tensor& target_T, std::int64_t t, const CrossEntropy& ce) {
  const std::int64_t column = target_T.ptr<std::int32_t>()[t] - ce.first_row;
  const bool here = target_T.ptr<std::int32_t>()[t] >= 0 && column >= 0 && column < ce.n_valid;
  return here ? column : -1;
}

template <class R>
void stats_row(const Tensor& max_T, const Tensor& sum_T, const Tensor& picked_T, const Tensor& logits_TV,
               std::int64_t t, std::int64_t target_column, std::int64_t n_valid) {
  R buffer[k_block];
  R largest = -std::numeric_limits<R>::infinity();
  for_pieces(n_valid, k_block, [&](std::int64_t c, std::int64_t n) {
    largest = std::max(largest, lane_max(read(logits_TV, t, c, n, buffer), n));
  });
  double sum = 0;
  for_pieces(n_valid, k_block, [&](std::int64_t c, std::int64_t n) {
    sum += static_cast<double>(sum_exp_run(read(logits_TV, t, c, n, buffer), largest, n));
  });
  max_T.ptr<R>()[t] = largest;
  sum_T.ptr<R>()[t] = static_cast<R>(sum);
  picked_T.ptr<R>()[t] = target_column < 0 ? R(0) : *read(logits_TV, t, target_column, 1, buffer);
}

// dlogit = scale (p (1 + 2 z lse) - [target])
template <class R>
void gradient_row(const Tensor& logits_TV, std::int64_t t, std::int64_t target_column, R lse, const CrossEntropy& ce) {
  const R factor = static_cast<R>(ce.scale * (1.0 + 2.0 * ce.z_loss * static_cast<double>(lse)));
  for_pieces(ce.n_valid, k_block, [&](std::int64_t c, std::int64_t n) {
    R buffer[k_block];
    const R* logits = read(logits_TV, t, c, n, buffer);
    R* gradient = target(logits_TV, t, c, buffer);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) gradient[i] = factor * vexp(logits[i] - lse);
    if (target_column >= c && target_column < c + n) gradient[target_column - c] -= static_cast<R>(ce.scale);
    store(logits_TV, t, c, n, gradient);
  });
}

template <class R>
void clear_row(const Tensor& logits_TV, std::int64_t t, std::int64_t first) {
  const R zeros[k_block] = {};
  for_pieces(logits_TV.columns() - first, k_block,
             [&](std::int64_t c, std::int64_t n) { store(logits_TV, t, first + c, n, zeros); });
}

}  // namespace

void CpuBackend::softmax_stats(Tensor max_T, Tensor sum_T, Tensor picked_T, Tensor logits_TV, Tensor target_T,
                               const CrossEntropy& ce) {
  with_real(logits_TV.dtype, [&]<class R>(R) {
    for_rows(n_threads_, logits_TV.rows(), logits_TV.columns(), [&](std::int64_t t) {
      stats_row<R>(max_T, sum_T, picked_T, logits_TV, t, local_target(target_T, t, ce), ce.n_valid);
    });
  });
}

void CpuBackend::softmax_rescale(Tensor sum_T, Tensor local_max_T, Tensor global_max_T) {
  with_real(sum_T.dtype, [&]<class R>(R) {
    R* sum = sum_T.ptr<R>();
    const R *local = local_max_T.ptr<R>(), *global = global_max_T.ptr<R>();
    for (std::int64_t t = 0; t < sum_T.count(); ++t) sum[t] *= std::exp(local[t] - global[t]);
  });
}

void CpuBackend::cross_entropy(Tensor loss_T, Tensor logits_TV, Tensor target_T, Tensor max_T, Tensor sum_T,
                               Tensor picked_T, const CrossEntropy& ce, bool backward) {
  with_real(logits_TV.dtype, [&]<class R>(R) {
    for_rows(n_threads_, logits_TV.rows(), logits_TV.columns(), [&](std::int64_t t) {
      const bool masked = target_T.ptr<std::int32_t>()[t] < 0;
      const R lse = std::log(sum_T.ptr<R>()[t]) + max_T.ptr<R>()[t];
      loss_T.ptr<R>()[t] = masked ? R(0) : lse - picked_T.ptr<R>()[t];
      if (!backward) return;
      if (!masked) gradient_row(logits_TV, t, local_target(target_T, t, ce), lse, ce);
      clear_row<R>(logits_TV, t, masked ? 0 : ce.n_valid);
    });
  });
}

}  // namespace trireme::cpu
