// The cross entropy of rows that are whole on this device, in one pass over memory: a block holds its row in shared
// memory between the statistics and the gradient. Every thread works on what it copied itself.

#include "softmax.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 768;
constexpr int k_static_shared = 1024;  // more than the kernel and the system take beside the row

template <class T>
struct Args {
  float *loss_T, *max_T, *sum_T, *picked_T;
  T* logits;
  const std::int32_t* target_T;
  int columns, n_valid;
  std::int64_t first_row;
  float scale, z_loss;
};

__device__ inline void copy_16_bytes(void* shared, const void* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
__device__ inline void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int later>
__device__ inline void wait_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}

// dlogits = scale (p (1 + 2 z lse) - onehot(target)); 0 in padding columns
template <class T, int N>
__device__ inline Pack<T, N> gradient(const Pack<T, N>& logits, int column, int target, int n_valid, float max,
                                      float factor, float scale) {
  float v[N];
  unpack(v, logits);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = exponential<T>(v[i] - max) * factor;
  if (target >= column && target < column + N) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] -= column + i == target ? scale : 0.0F;
  }
  if (column + N > n_valid) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = column + i < n_valid ? v[i] : 0.0F;
  }
  return packed<T>(v);
}

template <class T, int N>
__global__ void __launch_bounds__(k_threads, 2) whole_kernel(Args<T> a) {
  extern __shared__ uint4 memory[];
  __shared__ float2 shared[32];
  T* const row = reinterpret_cast<T*>(memory);
  const std::int64_t t = blockIdx.x;
  T* const logits = a.logits + t * a.columns;
  constexpr int step = k_threads * N;
  const int first = static_cast<int>(threadIdx.x) * N, whole = a.n_valid / N * N;
  const int half = a.columns / (2 * step) * step;  // whole turns of the block
  for (int c = first; c < half; c += step) copy_16_bytes(row + c, logits + c);
  end_group();
  for (int c = first + half; c < a.columns; c += step) copy_16_bytes(row + c, logits + c);
  end_group();
  const std::int32_t id = a.target_T[t];

  Running mine;
  wait_all_but<1>();
  for (int c = first; c < min(half, whole); c += step) mine.take(load_pack<T, N>(row + c));
  wait_all_but<0>();
  for (int c = first + half; c < whole; c += step) mine.take(load_pack<T, N>(row + c));
  if (whole < a.n_valid) {  // columns that another thread copied
    __syncthreads();
    take_rest<N>(mine, row, a.n_valid);
  }
  mine.combine_block(shared);

  const bool masked = id < 0;
  const std::int64_t local = id - a.first_row;
  const int target = !masked && local >= 0 && local < a.n_valid ? static_cast<int>(local) : -1;
  const float lse = logf(mine.sum) + mine.max;
  if (threadIdx.x == 0) {
    const float picked = target < 0 ? 0.0F : to_float(row[target]);
    a.max_T[t] = mine.max;
    a.sum_T[t] = mine.sum;
    a.picked_T[t] = picked;
    a.loss_T[t] = masked ? 0.0F : lse - picked;
  }
  const float factor = a.scale / mine.sum * (1.0F + 2.0F * a.z_loss * lse);
#pragma unroll 2
  for (int c = first; c < a.columns; c += step) {
    Pack<T, N> out{};
    if (!masked) out = gradient(load_pack<T, N>(row + c), c, target, a.n_valid, mine.max, factor, a.scale);
    store_pack(logits + c, out);
  }
}

}  // namespace

void CudaBackend::cross_entropy_whole(Tensor loss_T, Tensor logits, Tensor target_T, Tensor max_T, Tensor sum_T,
                                      Tensor picked_T, const CrossEntropy& ce, bool backward) {
  const auto row_bytes = static_cast<std::size_t>(logits.columns()) * size_of(logits.dtype);
  int shared_limit = 0;
  check(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
  const bool fits = row_bytes + k_static_shared <= static_cast<std::size_t>(shared_limit) && logits.contiguous() &&
                    in_packs(static_cast<int>(16 / size_of(logits.dtype)), {logits});
  if (!backward || !fits || logits.rows() == 0)
    return Backend::cross_entropy_whole(loss_T, logits, target_T, max_T, sum_T, picked_T, ce, backward);
  require(target_T.dtype == DType::i32, "cross_entropy_whole() needs i32 targets");
  by_storage("cross_entropy_whole()", logits.dtype, [&](auto t) {
    using T = decltype(t);
    const Args<T> args{loss_T.ptr<float>(),
                       max_T.ptr<float>(),
                       sum_T.ptr<float>(),
                       picked_T.ptr<float>(),
                       logits.ptr<T>(),
                       target_T.ptr<std::int32_t>(),
                       static_cast<int>(logits.columns()),
                       static_cast<int>(ce.n_valid),
                       ce.first_row,
                       static_cast<float>(ce.scale),
                       static_cast<float>(ce.z_loss)};
    const auto kernel = whole_kernel<T, k_pack<T>>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(row_bytes)));
    kernel<<<static_cast<unsigned>(logits.rows()), k_threads, row_bytes, stream_>>>(args);
  });
  check_launch();
}

}  // namespace trireme
