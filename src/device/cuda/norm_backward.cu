// Backward of layer and RMS norm. With h = gain dy, z = (x - mean) rstd and means over C:
//   dx += rstd (h - mean(h) - z mean(h z))   (rms: without mean(h))     dgain = sum_t dy z     dbias = sum_t dy
// A block walks its rows and keeps its share of dgain and dbias in registers; the shares are added in a fixed order.

#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_max_threads = 512;

template <class T>
struct Args {
  T* dx;
  const T *dy, *x, *gain;
  const float *mean, *rstd;
  float* partial;  // [blocks, 2C]: dgain, dbias
  std::int64_t rows, columns;
  bool layer;
};

// The sums of two values over the block; alternate `shared` between calls, then no second barrier is needed.
__device__ inline float2 block_sum2(float a, float b, float2* shared) {
  a = warp_sum(a);
  b = warp_sum(b);
  const int n_warps = static_cast<int>(blockDim.x + 31) / 32;
  if (n_warps == 1) return {a, b};
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = {a, b};
  __syncthreads();
  float2 total = shared[0];
  for (int w = 1; w < n_warps; ++w) {
    total.x += shared[w].x;
    total.y += shared[w].y;
  }
  return total;
}

// What a thread holds of a row.
template <class T, int N, int K>
struct RowPart {
  Pack<T, N> dy[K], x[K];
  float mean = 0.0F, rstd = 0.0F;

  __device__ void fetch(const Args<T>& a, std::int64_t row) {
    mean = a.layer ? a.mean[row] : 0.0F;
    rstd = a.rstd[row];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int column = static_cast<int>((threadIdx.x + k * blockDim.x) * N);
      if (column >= static_cast<int>(a.columns)) continue;
      dy[k] = load_pack<T, N>(a.dy + row * a.columns + column);
      x[k] = load_pack<T, N>(a.x + row * a.columns + column);
    }
  }
};

// The next row is on its way while this one is worked on, where registers allow it.
template <class T, int N, int K>
__global__ void __launch_bounds__(k_max_threads, K == 1 ? 2 : 1) norm_backward_kernel(Args<T> a) {
  __shared__ float2 shared[2][32];
  constexpr bool ahead = K == 1;
  const int columns = static_cast<int>(a.columns);
  const auto column_of = [](int k) { return static_cast<int>((threadIdx.x + k * blockDim.x) * N); };
  const float inverse = 1.0F / static_cast<float>(a.columns);
  float dgain[K][N] = {}, dbias[K][N] = {};
  Pack<T, N> gain_pack[K] = {};
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (column_of(k) < columns) gain_pack[k] = load_pack<T, N>(a.gain + column_of(k));
  int turn = 0;
  RowPart<T, N, K> now, next;
  if (ahead) now.fetch(a, blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    if (!ahead) now.fetch(a, row);
    T* const dx_row = a.dx + row * a.columns;
    Pack<T, N> dx_pack[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (K <= 2 && column_of(k) < columns) dx_pack[k] = load_pack<T, N>(dx_row + column_of(k));
    if (ahead && row + gridDim.x < a.rows) next.fetch(a, row + gridDim.x);
    float h_sum = 0.0F, hz_sum = 0.0F;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      float dy[N], x[N], gain[N];
      unpack(dy, now.dy[k]);
      unpack(x, now.x[k]);
      unpack(gain, gain_pack[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float z = (x[i] - now.mean) * now.rstd, h = gain[i] * dy[i];
        dgain[k][i] += dy[i] * z;
        dbias[k][i] += dy[i];
        h_sum += h;
        hz_sum += h * z;
      }
    }
    const float2 sums = block_sum2(h_sum, hz_sum, shared[turn]);
    const float h_mean = a.layer ? sums.x * inverse : 0.0F, hz_mean = sums.y * inverse;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= columns) continue;
      float dy[N], x[N], dx[N], gain[N];
      unpack(dy, now.dy[k]);
      unpack(x, now.x[k]);
      unpack(dx, K <= 2 ? dx_pack[k] : load_pack<T, N>(dx_row + column_of(k)));
      unpack(gain, gain_pack[k]);
#pragma unroll
      for (int i = 0; i < N; ++i)
        dx[i] += now.rstd * (gain[i] * dy[i] - h_mean - (x[i] - now.mean) * now.rstd * hz_mean);
      store<T, N>(dx_row + column_of(k), dx);
    }
    if (ahead) now = next;
  }
  float* const mine = a.partial + static_cast<std::int64_t>(blockIdx.x) * 2 * a.columns;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (column_of(k) >= columns) continue;
    store<float, N>(mine + column_of(k), dgain[k]);
    store<float, N>(mine + a.columns + column_of(k), dbias[k]);
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
  const float2 sums = block_sum2(h_sum, hz_sum, shared);
  const float h_mean = a.layer ? sums.x / static_cast<float>(a.columns) : 0.0F;
  const float hz_mean = sums.y / static_cast<float>(a.columns);
  for (std::int64_t c = threadIdx.x; c < a.columns; c += blockDim.x) {
    const float h = to_float(a.gain[c]) * to_float(a.dy[first + c]);
    const float z = (to_float(a.x[first + c]) - mean) * rstd;
    a.dx[first + c] = from_float<T>(to_float(a.dx[first + c]) + rstd * (h - h_mean - z * hz_mean));
  }
}

template <class T, int K>
void launch(cudaStream_t stream, std::int64_t accesses, int blocks, const Args<T>& args) {
  const auto threads = static_cast<unsigned>(round_up(div_up(accesses, K), 32));
  norm_backward_kernel<T, k_pack<T>, K><<<blocks, threads, 0, stream>>>(args);
}

// Enough blocks to fill the device, few enough that their shares are small beside the rows themselves.
int blocks_of(std::int64_t rows, std::int64_t accesses, int multiprocessors) {
  const std::int64_t threads = round_up(div_up(accesses, accesses <= 512 ? 1 : accesses <= 1024 ? 2 : 4), 32);
  const std::int64_t per_multiprocessor = std::clamp<std::int64_t>(1024 / threads, 1, 16);
  return static_cast<int>(std::min(rows, per_multiprocessor * multiprocessors));
}

template <class T>
void run_wide(cudaStream_t stream, int blocks, const Args<T>& args) {
  const std::int64_t accesses = args.columns / k_pack<T>;
  if (accesses <= 512) {
    launch<T, 1>(stream, accesses, blocks, args);
  } else if (accesses <= 1024) {
    launch<T, 2>(stream, accesses, blocks, args);
  } else {
    launch<T, 4>(stream, accesses, blocks, args);
  }
  check_launch();
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
    const bool wide = accesses <= 4 * k_max_threads && in_packs(k_pack<T>, {dx, dy, x, gain_C});
    const int blocks =
        wide ? blocks_of(a.rows, accesses, n_multiprocessors_) : static_cast<int>(std::min<std::int64_t>(a.rows, 64));
    a.partial = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(blocks * 2 * a.columns) * sizeof(float)));
    if (wide) {
      run_wide<T>(stream_, blocks, a);
    } else {
      run_loop<T>(stream_, blocks, a);
    }
    sum_partials(stream_, a.partial, blocks, 2 * a.columns, dgain_C, dbias_C, a.columns, into);
  });
}

}  // namespace trireme
