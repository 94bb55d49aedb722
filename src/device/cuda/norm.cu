// Layer and RMS norm over C channels, alone or fused with the residual before it. One pass over memory: a short row
// stays in the registers of a warp, a long one in those of a block that reads the rows after it ahead; rows that do not
// fit (or are not aligned) are read again by a slower kernel.

#include "ahead.cuh"
#include "dropout.cuh"

namespace trireme {

namespace {

constexpr int k_max_threads = 1024;
constexpr int k_warps = 4;               // rows of a block that gives each row a warp
constexpr int k_warp_accesses = 3 * 32;  // what a warp holds

template <class T>
struct NormArgs {
  T* y;
  float *mean, *rstd;
  const T *x, *gain, *bias;
  std::int64_t rows, columns;
  float eps;
  bool layer;
  // residual_out = residual + dropped(x + x_bias); residual_out null: x is normalised as it is
  T* residual_out;
  const T *x_bias, *residual;
  Dropout dropout;
};

// What belongs to the columns of one access, the same for every row; absent: zeros.
template <class T, int N>
struct ColumnValues {
  Pack<T, N> gain, bias, x_bias;

  __device__ ColumnValues(const NormArgs<T>& a, std::int64_t column) : gain{}, bias{}, x_bias{} {
    gain = load_pack<T, N>(a.gain + column);
    if (a.bias != nullptr) bias = load_pack<T, N>(a.bias + column);
    if (a.x_bias != nullptr) x_bias = load_pack<T, N>(a.x_bias + column);
  }
  __device__ ColumnValues() : gain{}, bias{}, x_bias{} {}
};

// residual_out of one access, stored.
template <class T, int N>
__device__ inline Pack<T, N> joined(const Pack<T, N>& x, const Pack<T, N>& residual, const ColumnValues<T, N>& values,
                                    const NormArgs<T>& a, std::int64_t row, std::int64_t column) {
  float v[N], other[N];
  unpack(v, x);
  unpack(other, values.x_bias);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] += other[i];
  a.dropout.template apply<N>(v, row, column);
  if (a.residual != nullptr) {
    unpack(other, residual);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += other[i];
  }
  const Pack<T, N> sum = packed<T>(v);
  store_pack(a.residual_out + row * a.columns + column, sum);
  return sum;
}

// What is normalised, rounded as it is stored.
template <class T, int N>
__device__ inline void read_row_part(float (&v)[N], const NormArgs<T>& a, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * a.columns + column;
  auto x = load_pack<T, N>(a.x + at);
  if (a.residual_out != nullptr) {
    const auto residual = a.residual != nullptr ? load_pack<T, N>(a.residual + at) : Pack<T, N>{};
    x = joined(x, residual, ColumnValues<T, N>(a, column), a, row, column);
  }
  unpack(v, x);
}

template <class T, int N>
__device__ inline void write_row_part(const float (&v)[N], const ColumnValues<T, N>& values, const NormArgs<T>& a,
                                      std::int64_t row, std::int64_t column, float mean, float rstd) {
  float gain[N], bias[N], y[N];
  unpack(gain, values.gain);
  unpack(bias, values.bias);
#pragma unroll
  for (int i = 0; i < N; ++i) y[i] = (v[i] - mean) * rstd * gain[i] + bias[i];
  store<T, N>(a.y + row * a.columns + column, y);
}

template <class T>
__device__ inline void write_statistics(const NormArgs<T>& a, std::int64_t row, unsigned thread, float mean,
                                        float rstd) {
  if (thread != 0) return;
  if (a.layer && a.mean != nullptr) a.mean[row] = mean;
  a.rstd[row] = rstd;
}

template <class T, int N, int K>
__device__ inline float sum_of(const Pack<T, N> (&v)[K]) {
  float sum = 0.0F;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    float x[N];
    unpack(x, v[k]);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += x[i];
  }
  return sum;
}

// A warp per row, K accesses of N elements per lane, all of them on their way at once and kept as they are stored.
template <class T, int N, int K, bool with_residual>
__global__ void __launch_bounds__(32 * k_warps, 4) norm_warp_kernel(NormArgs<T> a) {
  const std::int64_t row = blockIdx.x * std::int64_t{k_warps} + threadIdx.x / 32;
  if (row >= a.rows) return;
  const int first = static_cast<int>(threadIdx.x % 32) * N, columns = static_cast<int>(a.columns);
  constexpr int step = 32 * N;
  Pack<T, N> v[K];
#pragma unroll
  for (int k = 0; k < K; ++k)
    v[k] = first + k * step < columns ? load_pack<T, N>(a.x + row * columns + first + k * step) : Pack<T, N>{};
  if constexpr (with_residual) {
    Pack<T, N> residual[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (a.residual != nullptr && first + k * step < columns)
        residual[k] = load_pack<T, N>(a.residual + row * columns + first + k * step);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + k * step < columns)
        v[k] = joined(v[k], residual[k], ColumnValues<T, N>(a, first + k * step), a, row, first + k * step);
  }
  const float mean = a.layer ? warp_sum(sum_of(v)) / static_cast<float>(columns) : 0.0F;
  float squares = 0.0F;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    float x[N];
    unpack(x, v[k]);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += first + k * step < columns ? (x[i] - mean) * (x[i] - mean) : 0.0F;
  }
  const float rstd = rsqrtf(warp_sum(squares) / static_cast<float>(columns) + a.eps);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * step >= columns) continue;
    float x[N];
    unpack(x, v[k]);
    write_row_part(x, ColumnValues<T, N>(a, first + k * step), a, row, first + k * step, mean, rstd);
  }
  write_statistics(a, row, threadIdx.x % 32, mean, rstd);
}

// A block walks its rows, K accesses of N elements per thread; x and the residual of the next rows are on their way
// while one is worked on.
template <class T, int K, int slots, bool with_residual>
__global__ void __launch_bounds__(512) norm_ahead_kernel(NormArgs<T> a) {
  constexpr int N = k_pack<T>, P = with_residual ? 2 : 1;
  extern __shared__ uint4 memory[];
  __shared__ float shared[2][2][32];
  const Ahead<T, P * K, slots> ahead(memory, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  const int columns = static_cast<int>(a.columns);
  const auto column_of = [](int k) { return static_cast<int>((threadIdx.x + k * blockDim.x) * N); };
  const auto fetch = [&](std::int64_t row, int slot) {
    if (row >= a.rows) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      const std::int64_t at = row * columns + column_of(k);
      ahead.fetch(slot, P * k, a.x + at);
      if (with_residual && a.residual != nullptr) ahead.fetch(slot, P * k + P - 1, a.residual + at);
    }
  };
  for (int i = 0; i + 1 < slots; ++i) {
    fetch(blockIdx.x + std::int64_t{gridDim.x} * i, i);
    ahead.close_first();
  }
  const float inverse = 1.0F / static_cast<float>(a.columns);
  int turn = 0, slot = 0;
  for (std::int64_t row = blockIdx.x; row < a.rows;
       row += gridDim.x, turn ^= 1, slot = slot + 1 == slots ? 0 : slot + 1) {
    fetch(row + std::int64_t{gridDim.x} * (slots - 1), slot == 0 ? slots - 1 : slot - 1);
    ahead.close();
    Pack<T, N> v[K] = {};
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      v[k] = ahead.take(slot, P * k);
      if (with_residual)
        v[k] = joined(v[k], ahead.take(slot, P * k + P - 1), ColumnValues<T, N>(a, column_of(k)), a, row, column_of(k));
    }
    const float mean = a.layer ? block_sum(sum_of(v), shared[turn][0]) * inverse : 0.0F;
    float squares = 0.0F;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      float x[N];
      unpack(x, v[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += column_of(k) < columns ? (x[i] - mean) * (x[i] - mean) : 0.0F;
    }
    const float rstd = rsqrtf(block_sum(squares, shared[turn][1]) * inverse + a.eps);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      float x[N];
      unpack(x, v[k]);
      write_row_part(x, ColumnValues<T, N>(a, column_of(k)), a, row, column_of(k), mean, rstd);
    }
    write_statistics(a, row, threadIdx.x, mean, rstd);
  }
}

// A block per row, K accesses of N elements per thread.
template <class T, int N, int K>
__global__ void __launch_bounds__(k_max_threads) norm_kernel(NormArgs<T> a) {
  __shared__ float shared[2][32];
  const std::int64_t row = blockIdx.x, accesses = a.columns / N;
  float v[K][N], sum = 0.0F, squares = 0.0F;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t access = threadIdx.x + static_cast<std::int64_t>(k) * blockDim.x;
    if (access < accesses) {
      read_row_part<T, N>(v[k], a, row, access * N);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) v[k][i] = 0.0F;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum += v[k][i];
  }
  const float mean = a.layer ? block_sum(sum, shared[0]) / static_cast<float>(a.columns) : 0.0F;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const bool inside = threadIdx.x + static_cast<std::int64_t>(k) * blockDim.x < accesses;
#pragma unroll
    for (int i = 0; i < N; ++i) squares += inside ? (v[k][i] - mean) * (v[k][i] - mean) : 0.0F;
  }
  const float rstd = rsqrtf(block_sum(squares, shared[1]) / static_cast<float>(a.columns) + a.eps);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t access = threadIdx.x + static_cast<std::int64_t>(k) * blockDim.x;
    if (access < accesses) write_row_part(v[k], ColumnValues<T, N>(a, access * N), a, row, access * N, mean, rstd);
  }
  write_statistics(a, row, threadIdx.x, mean, rstd);
}

// Any number of channels, one element per access; the row is read again from `x` or from what was just stored.
template <class T>
__global__ void norm_loop_kernel(NormArgs<T> a) {
  __shared__ float shared[2][32];
  const std::int64_t row = blockIdx.x;
  const T* const stored = a.residual_out == nullptr ? a.x : a.residual_out;
  float sum = 0.0F, squares = 0.0F;
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    float v[1];
    read_row_part<T, 1>(v, a, row, c);
    sum += v[0];
  }
  const float mean = a.layer ? block_sum(sum, shared[0]) / static_cast<float>(a.columns) : 0.0F;
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    const float v = to_float(stored[row * a.columns + c]) - mean;
    squares += v * v;
  }
  const float rstd = rsqrtf(block_sum(squares, shared[1]) / static_cast<float>(a.columns) + a.eps);
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    const float v[1] = {to_float(stored[row * a.columns + c])};
    write_row_part(v, ColumnValues<T, 1>(a, c), a, row, c, mean, rstd);
  }
  write_statistics(a, row, threadIdx.x, mean, rstd);
}

template <class T, int K, bool with_residual>
void launch_ahead(const CudaBackend& backend, std::int64_t accesses, const NormArgs<T>& args) {
  constexpr int slots = 2;
  const std::int64_t threads = round_up(div_up(accesses, K), 32);
  const std::size_t bytes = Ahead<T, (with_residual ? 2 : 1) * K, slots>::bytes(threads);
  const auto kernel = norm_ahead_kernel<T, K, slots, with_residual>;
  allow_shared(kernel, bytes);
  int per_multiprocessor = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, static_cast<int>(threads), bytes));
  const auto blocks = std::min(args.rows, std::int64_t{per_multiprocessor} * backend.n_multiprocessors());
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), bytes, backend.stream()>>>(args);
}

template <class T, int K>
void launch_ahead(const CudaBackend& backend, std::int64_t accesses, const NormArgs<T>& args) {
  if (args.residual_out == nullptr) return launch_ahead<T, K, false>(backend, accesses, args);
  launch_ahead<T, K, true>(backend, accesses, args);
}

template <class T, int K>
void launch_warps(cudaStream_t stream, const NormArgs<T>& args) {
  const auto blocks = static_cast<unsigned>(div_up(args.rows, k_warps));
  if (args.residual_out == nullptr) {
    norm_warp_kernel<T, k_pack<T>, K, false><<<blocks, 32 * k_warps, 0, stream>>>(args);
  } else {
    norm_warp_kernel<T, k_pack<T>, K, true><<<blocks, 32 * k_warps, 0, stream>>>(args);
  }
}

template <class T>
void run(const CudaBackend& backend, const NormArgs<T>& args, bool wide) {
  cudaStream_t const stream = backend.stream();
  const std::int64_t accesses = args.columns / k_pack<T>;
  if (!wide || accesses > 4 * k_max_threads) {
    norm_loop_kernel<T><<<static_cast<unsigned>(args.rows), 256, 0, stream>>>(args);
  } else if (accesses <= 32) {
    launch_warps<T, 1>(stream, args);
  } else if (accesses <= 64) {
    launch_warps<T, 2>(stream, args);
  } else if (accesses <= k_warp_accesses) {
    launch_warps<T, 3>(stream, args);
  } else if (accesses <= 1536) {
    const auto idle = [&](std::int64_t k) { return round_up(div_up(accesses, k), 32) * k; };
    if (idle(3) < idle(4)) {
      launch_ahead<T, 3>(backend, accesses, args);
    } else {
      launch_ahead<T, 4>(backend, accesses, args);
    }
  } else {
    const auto threads = static_cast<unsigned>(round_up(div_up(accesses, 4), 32));
    norm_kernel<T, k_pack<T>, 4><<<static_cast<unsigned>(args.rows), threads, 0, stream>>>(args);
  }
  check_launch();
}

template <class T>
NormArgs<T> arguments(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& gain,
                      const Tensor& bias, NormKind kind, double eps) {
  NormArgs<T> a{};
  a.y = y.ptr<T>();
  a.mean = mean.ptr<float>();
  a.rstd = rstd.ptr<float>();
  a.x = x.ptr<T>();
  a.gain = gain.ptr<T>();
  a.bias = bias.ptr<T>();
  a.rows = x.rows();
  a.columns = x.columns();
  a.eps = static_cast<float>(eps);
  a.layer = kind == NormKind::layer;
  return a;
}

}  // namespace

void CudaBackend::norm(Tensor y, Tensor mean_T, Tensor rstd_T, Tensor x, Tensor gain_C, Tensor bias_C, NormKind kind,
                       double eps) {
  require(y.contiguous() && x.contiguous(), "norm() needs contiguous tensors");
  if (x.rows() == 0) return;
  by_storage("norm()", x.dtype, [&](auto t) {
    using T = decltype(t);
    const auto args = arguments<T>(y, mean_T, rstd_T, x, gain_C, bias_C, kind, eps);
    run<T>(*this, args, in_packs(k_pack<T>, {y, x, gain_C, bias_C}));
  });
}

void CudaBackend::add_norm(Tensor y, Tensor mean_T, Tensor rstd_T, Tensor residual_out, Tensor x, Tensor x_bias_C,
                           Tensor residual, Tensor rows_T, double p, const RandomKey& key, Tensor gain_C, Tensor bias_C,
                           NormKind kind, double eps) {
  require(y.contiguous() && x.contiguous() && residual_out.contiguous() && residual.contiguous(),
          "add_norm() needs contiguous tensors");
  if (x.rows() == 0) return;
  by_storage("add_norm()", x.dtype, [&](auto t) {
    using T = decltype(t);
    auto args = arguments<T>(y, mean_T, rstd_T, x, gain_C, bias_C, kind, eps);
    args.residual_out = residual_out.ptr<T>();
    args.x_bias = x_bias_C.ptr<T>();
    args.residual = residual.ptr<T>();
    args.dropout = make_dropout(rows_T, x.columns(), p, key);
    run<T>(*this, args, in_packs(k_pack<T>, {y, x, gain_C, bias_C, residual_out, x_bias_C, residual}));
  });
}

}  // namespace trireme
