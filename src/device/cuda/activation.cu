// Activations and their derivatives. The backward pass sums its columns on the way: that is the gradient of the bias.

#include "activation.cuh"
#include "columns.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;
template <class T, int N>
__global__ void activation_kernel(T* y, const T* x, std::int64_t accesses, Activation kind) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < accesses; i += stride) {
    float v[N];
    load<T, N>(v, x + i * N);
    activate_pack<T, N>(v, kind);
    store<T, N>(y + i * N, v);
  }
}

// y = silu(gate) up
template <class T, int N>
__global__ void swiglu_kernel(T* y, const T* x, std::int64_t accesses, std::int64_t per_row) {
  constexpr bool exact = std::is_same_v<T, float>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < accesses; i += stride) {
    const std::int64_t at = (i + i / per_row * per_row) * N;
    float gate[N], up[N];
    load<T, N>(gate, x + at);
    load<T, N>(up, x + at + per_row * N);
#pragma unroll
    for (int j = 0; j < N; ++j) up[j] *= gate[j] * sigmoid<exact>(gate[j]);
    store<T, N>(y + i * N, up);
  }
}

// dx = dy f'(x); column sums of dx (before rounding) into `partial` [gridDim.y, F] unless null. Two rows are on their
// way before the first is used.
template <class T, int N>
__global__ void __launch_bounds__(k_column_threads, 4)
    backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t columns, Activation kind,
                    float* partial) {
  __shared__ float shared[k_column_lanes][32][N + 1];
  const ColumnPart part(rows, columns / N);
  float sum[N] = {};
  if (part.inside) {
    const auto finish = [&](const Pack<T, N>& dy_pack, const Pack<T, N>& x_pack, std::int64_t at) {
      float a[N], b[N], d[N];
      unpack(a, dy_pack);
      unpack(b, x_pack);
      derive_pack<T, N>(d, a, b, kind);
      store<T, N>(dx + at, d);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += d[i];
    };
    std::int64_t r = part.first_row, at = r * columns + part.access * N;
    const std::int64_t step = k_column_lanes * columns;
    for (; r + k_column_lanes < part.last_row; r += 2 * k_column_lanes, at += 2 * step) {
      const auto dy_0 = load_pack<T, N>(dy + at), x_0 = load_pack<T, N>(x + at);
      const auto dy_1 = load_pack<T, N>(dy + at + step), x_1 = load_pack<T, N>(x + at + step);
      finish(dy_0, x_0, at);
      finish(dy_1, x_1, at + step);
    }
    if (r < part.last_row) finish(load_pack<T, N>(dy + at), load_pack<T, N>(x + at), at);
  }
  if (partial == nullptr) return;
  add_row_lanes<N>(sum, shared);
  if (part.inside && threadIdx.y == 0) store_partial<N>(partial + blockIdx.y * columns + part.access * N, sum);
}

// With s = sigmoid(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s
template <class T, int N>
__global__ void __launch_bounds__(k_column_threads, 3)
    swiglu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t columns, float* partial) {
  __shared__ float shared[k_column_lanes][32][N + 1];
  constexpr bool exact = std::is_same_v<T, float>;
  const ColumnPart part(rows, columns / N);
  float gate_sum[N] = {}, up_sum[N] = {};
  if (part.inside) {
    struct Row {
      Pack<T, N> d, gate, up;
    };
    const auto fetch = [&](std::int64_t r) {
      const T* const at = x + r * 2 * columns + part.access * N;
      return Row{load_pack<T, N>(dy + r * columns + part.access * N), load_pack<T, N>(at),
                 load_pack<T, N>(at + columns)};
    };
    const auto finish = [&](const Row& row, std::int64_t r) {
      const std::int64_t at = r * 2 * columns + part.access * N;
      float d[N], gate[N], up[N];
      unpack(d, row.d);
      unpack(gate, row.gate);
      unpack(up, row.up);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float s = sigmoid<exact>(gate[i]), dup = d[i] * gate[i] * s;
        gate[i] = d[i] * up[i] * s * (1.0F + gate[i] * (1.0F - s));
        up[i] = dup;
        gate_sum[i] += gate[i];
        up_sum[i] += up[i];
      }
      store<T, N>(dx + at, gate);
      store<T, N>(dx + at + columns, up);
    };
    std::int64_t r = part.first_row;
    for (; r + k_column_lanes < part.last_row; r += 2 * k_column_lanes) {
      const Row first = fetch(r), second = fetch(r + k_column_lanes);
      finish(first, r);
      finish(second, r + k_column_lanes);
    }
    if (r < part.last_row) finish(fetch(r), r);
  }
  if (partial == nullptr) return;
  float* const mine = partial + blockIdx.y * 2 * columns + part.access * N;
  add_row_lanes<N>(gate_sum, shared);
  if (part.inside && threadIdx.y == 0) store_partial<N>(mine, gate_sum);
  add_row_lanes<N>(up_sum, shared);
  if (part.inside && threadIdx.y == 0) store_partial<N>(mine + columns, up_sum);
}

// Widths of the two halves as a narrow tensor, so that alignment of `up` is checked as well.
bool in_halves(int n, const Tensor& y, const Tensor& x) {
  return in_packs(n, {y, x}) && y.columns() % n == 0;
}

}  // namespace

void CudaBackend::activation(Tensor y, Tensor x, Activation kind) {
  require(y.contiguous() && x.contiguous() && x.dtype == y.dtype, "activation() needs contiguous tensors of one dtype");
  if (y.count() == 0) return;
  by_storage("activation()", y.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_halves(k_pack<T>, y, x), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const std::int64_t accesses = y.count() / n;
      const int grid = blocks_for(accesses, k_threads, std::int64_t{n_multiprocessors_} * 32);
      if (kind == Activation::swiglu) {
        swiglu_kernel<T, n><<<grid, k_threads, 0, stream_>>>(y.ptr<T>(), x.ptr<T>(), accesses, y.columns() / n);
      } else {
        activation_kernel<T, n><<<grid, k_threads, 0, stream_>>>(y.ptr<T>(), x.ptr<T>(), accesses, kind);
      }
    });
  });
  check_launch();
}

void CudaBackend::activation_backward(Tensor dx, Tensor dy, Tensor x, Activation kind) {
  activation_backward_bias(dx, {}, dy, x, kind, Into::replace);
}

void CudaBackend::activation_backward_bias(Tensor dx, Tensor db, Tensor dy, Tensor x, Activation kind, Into into) {
  require(dx.contiguous() && dy.contiguous() && x.contiguous(), "activation_backward() needs contiguous tensors");
  if (dy.count() == 0) return;
  by_storage("activation_backward()", x.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_halves(k_pack<T>, dy, x) && in_packs(k_pack<T>, {dx}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const dim3 grid = column_grid(dy.rows(), dy.columns() / n, n_multiprocessors_), block(32, k_column_lanes);
      float* partial = nullptr;
      if (db) {
        const auto bytes = static_cast<std::size_t>(grid.y * dx.columns()) * sizeof(float);
        partial = reinterpret_cast<float*>(scratch(bytes));
      }
      if (kind == Activation::swiglu) {
        swiglu_backward_kernel<T, n>
            <<<grid, block, 0, stream_>>>(dx.ptr<T>(), dy.ptr<T>(), x.ptr<T>(), dy.rows(), dy.columns(), partial);
      } else {
        backward_kernel<T, n>
            <<<grid, block, 0, stream_>>>(dx.ptr<T>(), dy.ptr<T>(), x.ptr<T>(), dy.rows(), dy.columns(), kind, partial);
      }
      check_launch();
      if (db) sum_partials(stream_, partial, grid.y, dx.columns(), db, {}, dx.columns(), into);
    });
  });
}

}  // namespace trireme
