// Dropout with bias and residual, forward and backward. Nothing is stored: the mask is drawn again.

#include "dropout.cuh"
#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;

template <class T, int N>
__global__ void dropout_add_kernel(T* y, const T* x, const T* bias, const T* residual, std::int64_t n_accesses,
                                   std::int64_t per_row, Dropout dropout) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n_accesses; i += stride) {
    const std::int64_t row = i / per_row, column = (i - row * per_row) * N;
    float value[N], other[N];
    load<T, N>(value, x + i * N);
    if (bias != nullptr) {
      load<T, N>(other, bias + column);
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] += other[j];
    }
    dropout.apply<N>(value, row, column);
    if (residual != nullptr) {
      load<T, N>(other, residual + i * N);
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] += other[j];
    }
    store<T, N>(y + i * N, value);
  }
}

}  // namespace

void CudaBackend::dropout_add(Tensor y, Tensor x, Tensor bias, Tensor residual, Tensor rows_T, double p,
                              const RandomKey& key) {
  require(y.contiguous() && x.contiguous() && residual.contiguous(), "dropout_add() needs contiguous tensors");
  if (y.count() == 0) return;
  const std::int64_t columns = y.columns();
  const Dropout dropout = make_dropout(rows_T, columns, p, key);
  by_storage("dropout_add()", y.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {y, x, bias, residual}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const std::int64_t accesses = y.count() / n;
      const int grid = blocks_for(accesses, k_threads, std::int64_t{n_multiprocessors_} * 32);
      dropout_add_kernel<T, n><<<grid, k_threads, 0, stream_>>>(y.ptr<T>(), x.ptr<T>(), bias.ptr<T>(),
                                                                residual.ptr<T>(), accesses, columns / n, dropout);
    });
  });
  check_launch();
}

void CudaBackend::dropout_backward(Tensor dx, Tensor dy, Tensor rows_T, double p, const RandomKey& key) {
  dropout_add(dx, dy, {}, {}, rows_T, p, key);
}

}  // namespace trireme
