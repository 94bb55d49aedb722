// RMS norm of each head's D channels (QK-norm) and its backward pass. A group of 2^k lanes holds one head.
// With z = x rstd, h = gain dy: dx = rstd (h - z mean(h z)), dgain = sum over tokens and heads of dy z.

#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;

struct HeadShape {
  std::int64_t items, heads, head_dim, x_pitch, y_pitch, dy_pitch;
  int lanes;  // per head
};

// Item (token, head) of this thread's group in round `round`, and whether it exists.
struct Item {
  std::int64_t index, token, column;
  bool exists;
  __device__ Item(const HeadShape& s, std::int64_t first_group) {
    index = first_group + (threadIdx.x % k_threads) / s.lanes;
    exists = index < s.items;
    token = index / s.heads;
    column = (index - token * s.heads) * s.head_dim;
  }
};

template <class T, int N, int K>
__global__ void head_norm_kernel(T* y, float* rstd, const T* x, const T* gain, HeadShape s, float eps) {
  const Item item(s, blockIdx.x * std::int64_t{k_threads / s.lanes});
  const int lane = static_cast<int>(threadIdx.x) % s.lanes;
  float v[K][N], squares = 0.0F;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t d = static_cast<std::int64_t>(lane + k * s.lanes) * N;
    if (!item.exists || d >= s.head_dim) continue;
    load<T, N>(v[k], x + item.token * s.x_pitch + item.column + d);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += v[k][i] * v[k][i];
  }
  const float r = rsqrtf(group_sum(squares, s.lanes) / static_cast<float>(s.head_dim) + eps);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t d = static_cast<std::int64_t>(lane + k * s.lanes) * N;
    if (!item.exists || d >= s.head_dim) continue;
    float g[N];
    load<T, N>(g, gain + d);
#pragma unroll
    for (int i = 0; i < N; ++i) v[k][i] *= r * g[i];
    store<T, N>(y + item.token * s.y_pitch + item.column + d, v[k]);
  }
  if (item.exists && lane == 0) rstd[item.index] = r;
}

template <class T, int N, int K>
__global__ void __launch_bounds__(k_threads)
    head_norm_backward_kernel(T* dx, const T* dy, const T* x, const float* rstd, const T* gain, HeadShape s,
                              float* partial) {
  extern __shared__ float shared[];  // [groups, D]
  const int lane = static_cast<int>(threadIdx.x) % s.lanes, groups = k_threads / s.lanes;
  float dgain[K][N] = {};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * groups;
  for (std::int64_t first = blockIdx.x * std::int64_t{groups}; first < s.items; first += step) {
    const Item item(s, first);
    const float r = item.exists ? rstd[item.index] : 0.0F;
    float h[K][N], z[K][N], hz = 0.0F;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const std::int64_t d = static_cast<std::int64_t>(lane + k * s.lanes) * N;
      if (!item.exists || d >= s.head_dim) continue;
      float g[N];
      load<T, N>(h[k], dy + item.token * s.dy_pitch + item.column + d);
      load<T, N>(z[k], x + item.token * s.x_pitch + item.column + d);
      load<T, N>(g, gain + d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        z[k][i] *= r;
        dgain[k][i] += h[k][i] * z[k][i];
        h[k][i] *= g[i];
        hz += h[k][i] * z[k][i];
      }
    }
    const float mean = group_sum(hz, s.lanes) / static_cast<float>(s.head_dim);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const std::int64_t d = static_cast<std::int64_t>(lane + k * s.lanes) * N;
      if (!item.exists || d >= s.head_dim) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) h[k][i] = r * (h[k][i] - z[k][i] * mean);
      store<T, N>(dx + item.token * s.y_pitch + item.column + d, h[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::int64_t d = static_cast<std::int64_t>(lane + k * s.lanes) * N;
    if (d >= s.head_dim) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) shared[threadIdx.x / s.lanes * s.head_dim + d + i] = dgain[k][i];
  }
  __syncthreads();
  for (std::int64_t d = threadIdx.x; d < s.head_dim; d += k_threads) {
    float sum = 0.0F;
    for (int g = 0; g < groups; ++g) sum += shared[g * s.head_dim + d];
    partial[blockIdx.x * s.head_dim + d] = sum;
  }
}

constexpr int per_lane(int n) {
  return n == 1 ? 8 : 2;
}

HeadShape shape_of(const Tensor& y, const Tensor& rstd, const Tensor& x, std::int64_t head_dim, int n) {
  const std::int64_t heads = div_exact(x.columns(), head_dim);
  require(rstd.count() == x.rows() * heads, "head_norm() needs rstd of [T, H]");
  require(head_dim <= 32 * per_lane(n) * n, "head_norm() holds at most 256 channels per head");
  HeadShape s{x.rows() * heads, heads, head_dim, x.pitch, y.pitch, 0, 1};
  while (s.lanes < 32 && s.lanes * n < head_dim) s.lanes *= 2;
  return s;
}

// Heads must start on an access as well as rows.
bool heads_in_packs(int n, std::int64_t head_dim, std::initializer_list<Tensor> tensors) {
  return head_dim % n == 0 && in_packs(n, tensors);
}

}  // namespace

void CudaBackend::head_norm(Tensor y, Tensor rstd, Tensor x, Tensor gain, double eps) {
  if (x.rows() == 0) return;
  by_storage("head_norm()", x.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(heads_in_packs(k_pack<T>, gain.count(), {y, x, gain}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const HeadShape s = shape_of(y, rstd, x, gain.count(), n);
      const auto grid = static_cast<unsigned>(div_up(s.items, k_threads / s.lanes));
      head_norm_kernel<T, n, per_lane(n)><<<grid, k_threads, 0, stream_>>>(y.ptr<T>(), rstd.ptr<float>(), x.ptr<T>(),
                                                                           gain.ptr<T>(), s, static_cast<float>(eps));
    });
  });
  check_launch();
}

void CudaBackend::head_norm_backward(Tensor dx, Tensor dgain, Tensor dy, Tensor x, Tensor rstd, Tensor gain,
                                     Into into) {
  if (x.rows() == 0) return;
  by_storage("head_norm_backward()", x.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(heads_in_packs(k_pack<T>, gain.count(), {dx, dy, x, gain}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      HeadShape s = shape_of(dx, rstd, x, gain.count(), n);
      s.dy_pitch = dy.pitch;
      const std::int64_t groups = k_threads / s.lanes;
      const auto blocks = std::min<std::int64_t>(div_up(s.items, groups), std::int64_t{n_multiprocessors_} * 6);
      auto* const partial =
          reinterpret_cast<float*>(scratch(static_cast<std::size_t>(blocks * s.head_dim) * sizeof(float)));
      const auto shared = static_cast<std::size_t>(groups * s.head_dim) * sizeof(float);
      head_norm_backward_kernel<T, n, per_lane(n)><<<static_cast<unsigned>(blocks), k_threads, shared, stream_>>>(
          dx.ptr<T>(), dy.ptr<T>(), x.ptr<T>(), rstd.ptr<float>(), gain.ptr<T>(), s, partial);
      check_launch();
      sum_partials(stream_, partial, blocks, s.head_dim, dgain, {}, s.head_dim, into);
    });
  });
}

}  // namespace trireme
