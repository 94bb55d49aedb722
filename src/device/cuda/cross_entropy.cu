// Vocabulary-parallel cross entropy: a block per token reads its logits once for the statistics and once for the
// gradient.

#include "softmax.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 512;
constexpr int k_flight = 4;  // packs of a thread that are on their way at once

template <class T, int N>
__global__ void __launch_bounds__(k_threads)
    stats_kernel(float* max_T, float* sum_T, float* picked_T, const T* logits, std::int64_t columns, int n_valid,
                 const std::int32_t* target_T, std::int64_t first_row) {
  __shared__ float2 shared[32];
  const std::int64_t row = blockIdx.x;
  const T* const x = logits + row * columns;
  constexpr int step = k_threads * N;
  const int whole = n_valid / N * N;
  Running mine;
  for (int c = static_cast<int>(threadIdx.x) * N; c < whole; c += k_flight * step) {
    Pack<T, N> packs[k_flight];
#pragma unroll
    for (int k = 0; k < k_flight; ++k)
      if (c + k * step < whole) packs[k] = load_pack<T, N>(x + c + k * step);
#pragma unroll
    for (int k = 0; k < k_flight; ++k)
      if (c + k * step < whole) mine.take(packs[k]);
  }
  take_rest<N>(mine, x, n_valid);
  mine.combine_block(shared);
  if (threadIdx.x != 0) return;
  max_T[row] = mine.max;
  sum_T[row] = mine.sum;
  const std::int64_t target = target_T[row] - first_row;
  const bool here = target_T[row] >= 0 && target >= 0 && target < n_valid;
  picked_T[row] = here ? to_float(x[target]) : 0.0F;
}

__global__ void rescale_kernel(float* sum, const float* local_max, const float* global_max, std::int64_t n) {
  const std::int64_t t = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (t < n && local_max[t] != global_max[t]) sum[t] *= expf(local_max[t] - global_max[t]);
}

__global__ void loss_kernel(float* loss, const float* max_T, const float* sum_T, const float* picked,
                            const std::int32_t* target, std::int64_t n) {
  const std::int64_t t = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (t < n) loss[t] = target[t] < 0 ? 0.0F : logf(sum_T[t]) + max_T[t] - picked[t];
}

// dlogits = scale (p (1 + 2 z lse) - onehot(target)); 0 for masked tokens and padding columns
template <class T, int N>
__global__ void __launch_bounds__(k_threads)
    gradient_kernel(float* loss_T, T* logits, std::int64_t columns, const std::int32_t* target_T, const float* max_T,
                    const float* sum_T, const float* picked_T, CrossEntropy ce) {
  const std::int64_t row = blockIdx.x;
  T* const x = logits + row * columns;
  const std::int64_t target = target_T[row] < 0 ? -1 : target_T[row] - ce.first_row;
  const bool masked = target_T[row] < 0;
  const float max = max_T[row], lse = logf(sum_T[row]) + max;
  const auto scale = static_cast<float>(ce.scale);
  const float factor = masked ? 0.0F : scale / sum_T[row] * (1.0F + 2.0F * static_cast<float>(ce.z_loss) * lse);
  if (threadIdx.x == 0) loss_T[row] = masked ? 0.0F : lse - picked_T[row];
#pragma unroll 2
  for (std::int64_t c = threadIdx.x * std::int64_t{N}; c < columns; c += k_threads * std::int64_t{N}) {
    float v[N];
    if (masked) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = 0.0F;
    } else {
      load<T, N>(v, x + c);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float hot = c + i == target ? scale : 0.0F;
        v[i] = c + i < ce.n_valid ? exponential<T>(v[i] - max) * factor - hot : 0.0F;
      }
    }
    store<T, N>(x + c, v);
  }
}

}  // namespace

void CudaBackend::softmax_stats(Tensor max_T, Tensor sum_T, Tensor picked_T, Tensor logits, Tensor target_T,
                                const CrossEntropy& ce) {
  require(logits.contiguous() && target_T.dtype == DType::i32,
          "softmax_stats() needs contiguous logits and i32 targets");
  if (logits.rows() == 0) return;
  by_storage("softmax_stats()", logits.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {logits}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      stats_kernel<T, n><<<static_cast<unsigned>(logits.rows()), k_threads, 0, stream_>>>(
          max_T.ptr<float>(), sum_T.ptr<float>(), picked_T.ptr<float>(), logits.ptr<T>(), logits.columns(),
          static_cast<int>(ce.n_valid), target_T.ptr<std::int32_t>(), ce.first_row);
    });
  });
  check_launch();
}

void CudaBackend::softmax_rescale(Tensor sum_T, Tensor local_max_T, Tensor global_max_T) {
  const std::int64_t n = sum_T.count();
  if (n == 0) return;
  rescale_kernel<<<static_cast<unsigned>(div_up(n, 256)), 256, 0, stream_>>>(
      sum_T.ptr<float>(), local_max_T.ptr<float>(), global_max_T.ptr<float>(), n);
  check_launch();
}

void CudaBackend::cross_entropy(Tensor loss_T, Tensor logits, Tensor target_T, Tensor max_T, Tensor sum_T,
                                Tensor picked_T, const CrossEntropy& ce, bool backward) {
  require(logits.contiguous() && target_T.dtype == DType::i32,
          "cross_entropy() needs contiguous logits and i32 targets");
  const std::int64_t rows = logits.rows();
  if (rows == 0) return;
  if (!backward) {
    loss_kernel<<<static_cast<unsigned>(div_up(rows, 256)), 256, 0, stream_>>>(
        loss_T.ptr<float>(), max_T.ptr<float>(), sum_T.ptr<float>(), picked_T.ptr<float>(),
        target_T.ptr<std::int32_t>(), rows);
    return check_launch();
  }
  by_storage("cross_entropy()", logits.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {logits}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      gradient_kernel<T, n><<<static_cast<unsigned>(rows), k_threads, 0, stream_>>>(
          loss_T.ptr<float>(), logits.ptr<T>(), logits.columns(), target_T.ptr<std::int32_t>(), max_T.ptr<float>(),
          sum_T.ptr<float>(), picked_T.ptr<float>(), ce);
    });
  });
  check_launch();
}

}  // namespace trireme
