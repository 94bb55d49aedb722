// Backward of layer and RMS norm. With h = gain dy, z = (x - mean) rstd and means over C:
//   dx += rstd (h - mean(h) - z mean(h z))   (rms: without mean(h))     dgain = sum_t dy z     dbias = sum_t dy
// A block walks its rows and keeps its share of dgain and dbias in registers; the shares are added in a fixed order.

#include "ahead.cuh"

namespace trireme {

namespace {

// By accesses per thread: what the registers for dgain and dbias allow without spilling.
constexpr int max_threads(int accesses) {
  return accesses == 2 ? 384 : 512;
}
constexpr int blocks_per_multiprocessor(int accesses) {
  return accesses == 2 ? 2 : 1;
}
constexpr int k_max_groups = 15;  // named barriers of a block, less the one of __syncthreads()

template <class T>
struct Args {
  T* dx;
  const T *dy, *x, *gain;
  const float *mean, *rstd;
  float* partial;  // [blocks, 2C]: dgain, dbias
  std::int64_t rows, columns;
  bool layer;
};

// The threads of a row: some whole warps of the block, which wait only for each other.
struct RowGroup {
  int index, n_threads, thread;

  __device__ explicit RowGroup(int threads)
      : index(static_cast<int>(threadIdx.x) / threads),
        n_threads(threads),
        thread(static_cast<int>(threadIdx.x) % threads) {}

  // The sums of two values over the group; alternate `shared` between calls, then no second barrier is needed.
  __device__ float2 sum2(float a, float b, float2* shared) const {
    a = warp_sum(a);
    b = warp_sum(b);
    const int n_warps = n_threads / 32;
    if (n_warps == 1) return {a, b};
    if (thread % 32 == 0) shared[threadIdx.x / 32] = {a, b};
    asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "r"(n_threads) : "memory");
    float2 total = shared[index * n_warps];
    for (int w = 1; w < n_warps; ++w) {
      const float2 more = shared[index * n_warps + w];
      total.x += more.x;
      total.y += more.y;
    }
    return total;
  }
};

// Groups of threads take a row each, K accesses of N elements per thread; dy, x and dx of the group's next row are on
// their way while one is worked on.
template <class T, int N, int K, int slots>
__global__ void __launch_bounds__(max_threads(K), blocks_per_multiprocessor(K))
    norm_backward_kernel(Args<T> a, int row_threads) {
  extern __shared__ uint4 memory[];
  __shared__ float2 shared[2][32];
  const RowGroup group(row_threads);
  const Ahead<T, 3 * K, slots> ahead(memory, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  const int columns = static_cast<int>(a.columns), n_groups = static_cast<int>(blockDim.x) / row_threads;
  const auto column_of = [&](int k) { return (group.thread + k * row_threads) * N; };
  const std::int64_t first = std::int64_t{blockIdx.x} * n_groups + group.index,
                     stride = std::int64_t{gridDim.x} * n_groups;
  const auto fetch = [&](std::int64_t row, int slot) {
    if (row >= a.rows) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      const std::int64_t at = row * columns + column_of(k);
      ahead.fetch(slot, 3 * k, a.dy + at);
      ahead.fetch(slot, 3 * k + 1, a.x + at);
      ahead.fetch(slot, 3 * k + 2, a.dx + at);
    }
  };
  const float inverse = 1.0F / static_cast<float>(a.columns);
  float dgain[K][N] = {}, dbias[K][N] = {};
  Pack<T, N> gain_pack[K] = {};
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of(k) < columns) gain_pack[k] = load_pack<T, N>(a.gain + column_of(k));
  for (int i = 0; i + 1 < slots; ++i) {
    fetch(first + stride * i, i);
    ahead.close_first();
  }
  int turn = 0, slot = 0;
  for (std::int64_t row = first; row < a.rows; row += stride, turn ^= 1, slot = slot + 1 == slots ? 0 : slot + 1) {
    fetch(row + stride * (slots - 1), slot == 0 ? slots - 1 : slot - 1);
    const float mean = a.layer ? a.mean[row] : 0.0F, rstd = a.rstd[row];
    ahead.close();
    float h_sum = 0.0F, hz_sum = 0.0F;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      float dy[N], x[N], gain[N];
      unpack(dy, ahead.take(slot, 3 * k));
      unpack(x, ahead.take(slot, 3 * k + 1));
      unpack(gain, gain_pack[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float z = (x[i] - mean) * rstd, h = gain[i] * dy[i];
        dgain[k][i] += dy[i] * z;
        dbias[k][i] += dy[i];
        h_sum += h;
        hz_sum += h * z;
      }
    }
    const float2 sums = group.sum2(h_sum, hz_sum, shared[turn]);
    const float h_mean = a.layer ? sums.x * inverse : 0.0F, hz_mean = sums.y * inverse;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      float dy[N], x[N], dx[N], gain[N];
      unpack(dy, ahead.take(slot, 3 * k));
      unpack(x, ahead.take(slot, 3 * k + 1));
      unpack(dx, ahead.take(slot, 3 * k + 2));
      unpack(gain, gain_pack[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) dx[i] += rstd * (gain[i] * dy[i] - h_mean - (x[i] - mean) * rstd * hz_mean);
      store<T, N>(a.dx + row * columns + column_of(k), dx);
    }
  }
  // The groups' shares meet in shared memory, one group after the other, so that the order of adding is fixed.
  auto* const totals = reinterpret_cast<float*>(memory);  // [2][columns]
  for (int g = 0; g < n_groups; ++g) {
    __syncthreads();
    if (group.index != g) continue;
    float* const out = g + 1 == n_groups ? a.partial + static_cast<std::int64_t>(blockIdx.x) * 2 * columns : totals;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      if (g > 0) {
        float more[N];
        load<float, N>(more, totals + column_of(k));
#pragma unroll
        for (int i = 0; i < N; ++i) dgain[k][i] += more[i];
        load<float, N>(more, totals + columns + column_of(k));
#pragma unroll
        for (int i = 0; i < N; ++i) dbias[k][i] += more[i];
      }
      store<float, N>(out + column_of(k), dgain[k]);
      store<float, N>(out + columns + column_of(k), dbias[k]);
    }
  }
}

// Unaligned or very long rows: the shares of dgain and dbias, one column per thread, rows cut into gridDim.y parts.
template <class T>
__global__ void norm_gain_loop_kernel(Args<T> a) {
  const std::int64_t c = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (c >= a.columns) return;
  float dgain = 0.0F, dbias = 0.0F;
  for (std::int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const float dy = to_float(a.dy[row * a.columns + c]), mean = a.layer ? a.mean[row] : 0.0F;
    dgain += dy * (to_float(a.x[row * a.columns + c]) - mean) * a.rstd[row];
    dbias += dy;
  }
  a.partial[blockIdx.y * 2 * a.columns + c] = dgain;
  a.partial[blockIdx.y * 2 * a.columns + a.columns + c] = dbias;
}

template <class T>
__global__ void norm_dx_loop_kernel(Args<T> a) {
  __shared__ float2 shared[32];
  const std::int64_t row = blockIdx.x, first = row * a.columns;
  const float mean = a.layer ? a.mean[row] : 0.0F, rstd = a.rstd[row];
  float h_sum = 0.0F, hz_sum = 0.0F;
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    const float h = to_float(a.gain[c]) * to_float(a.dy[first + c]);
    h_sum += h;
    hz_sum += h * (to_float(a.x[first + c]) - mean) * rstd;
  }
  const float2 sums = RowGroup(static_cast<int>(blockDim.x)).sum2(h_sum, hz_sum, shared);
  const float h_mean = a.layer ? sums.x / static_cast<float>(a.columns) : 0.0F;
  const float hz_mean = sums.y / static_cast<float>(a.columns);
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    const float h = to_float(a.gain[c]) * to_float(a.dy[first + c]);
    const float z = (to_float(a.x[first + c]) - mean) * rstd;
    a.dx[first + c] = from_float<T>(to_float(a.dx[first + c]) + rstd * (h - h_mean - z * hz_mean));
  }
}

template <class T, int K, int slots>
bool launch(const CudaBackend& backend, std::int64_t accesses, int blocks, const Args<T>& args) {
  const std::int64_t row_threads = round_up(div_up(accesses, K), 32);
  const std::int64_t threads = std::min<std::int64_t>(max_threads(K) / row_threads, k_max_groups) * row_threads;
  const std::size_t bytes = Ahead<T, 3 * K, slots>::bytes(threads);
  if (bytes > backend.shared_per_block()) return false;
  const auto kernel = norm_backward_kernel<T, k_pack<T>, K, slots>;
  allow_shared(kernel, bytes);
  kernel<<<blocks, static_cast<unsigned>(threads), bytes, backend.stream()>>>(args, static_cast<int>(row_threads));
  return true;
}

// One or two rows ahead where shared memory allows it; without, a row fits every device of compute capability 8.0 on.
template <class T, int K>
void launch(const CudaBackend& backend, std::int64_t accesses, int blocks, const Args<T>& args) {
  const bool launched = launch < T, K,
             K == 2 ? 3 : 2 > (backend, accesses, blocks, args) || launch<T, K, 1>(backend, accesses, blocks, args);
  require(launched, "norm_backward() needs 96 KiB of shared memory per block");
  check_launch();
}

// Accesses per thread: few, so that many warps run, and such that few threads of a row's last warp idle.
int accesses_per_thread(std::int64_t accesses) {
  if (accesses > 2 * max_threads(2)) return 4;
  const auto taken = [&](std::int64_t k) { return round_up(div_up(accesses, k), 32) * k; };
  return taken(3) < taken(2) ? 3 : 2;
}

template <class T>
void run_loop(cudaStream_t stream, int blocks, const Args<T>& args) {
  const dim3 grid(static_cast<unsigned>(div_up(args.columns, 256)), static_cast<unsigned>(blocks));
  norm_gain_loop_kernel<T><<<grid, 256, 0, stream>>>(args);
  check_launch();
  norm_dx_loop_kernel<T><<<static_cast<unsigned>(args.rows), 256, 0, stream>>>(args);
  check_launch();
}

}  // namespace

void CudaBackend::norm_backward(Tensor dx, Tensor dgain_C, Tensor dbias_C, Tensor dy, Tensor x, Tensor mean_T,
                                Tensor rstd_T, Tensor gain_C, NormKind kind, Into into) {
  require(dx.contiguous() && dy.contiguous() && x.contiguous(), "norm_backward() needs contiguous tensors");
  require(dx.dtype == x.dtype && dy.dtype == x.dtype && gain_C.dtype == x.dtype,
          "norm_backward() needs dx, dy, x and gain of one dtype");
  if (x.rows() == 0) return;
  by_storage("norm_backward()", x.dtype, [&](auto t) {
    using T = decltype(t);
    Args<T> a{dx.ptr<T>(),         dy.ptr<T>(), x.ptr<T>(), gain_C.ptr<T>(), mean_T.ptr<float>(),
              rstd_T.ptr<float>(), nullptr,     x.rows(),   x.columns(),     kind == NormKind::layer};
    const std::int64_t accesses = a.columns / k_pack<T>;
    const bool wide = accesses <= 4 * max_threads(4) && in_packs(k_pack<T>, {dx, dy, x, gain_C});
    const int per_thread = accesses_per_thread(accesses);
    const std::int64_t most = wide ? std::int64_t{blocks_per_multiprocessor(per_thread)} * n_multiprocessors_ : 64;
    const int blocks = static_cast<int>(std::min(a.rows, most));
    a.partial = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(blocks * 2 * a.columns) * sizeof(float)));
    if (wide) {
      per_thread == 2   ? launch<T, 2>(*this, accesses, blocks, a)
      : per_thread == 3 ? launch<T, 3>(*this, accesses, blocks, a)
                        : launch<T, 4>(*this, accesses, blocks, a);
    } else {
      run_loop<T>(stream_, blocks, a);
    }
    sum_partials(stream_, a.partial, blocks, 2 * a.columns, dgain_C, dbias_C, a.columns, into);
  });
}

}  // namespace trireme
