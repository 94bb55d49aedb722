// Activations and their derivatives. The backward pass sums its columns on the way: that is the gradient of the bias.

#include "activation.cuh"
#include "ahead.cuh"
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

// A thread's walk over its rows: `fetch` asks for one row's packs, `use` works on what has come. Four rows at a time.
constexpr int k_slots = 4;
template <class T, int P, class Fetch, class Use>
__device__ inline void walk_rows(const ColumnPart& part, void* memory, const Fetch& fetch, const Use& use) {
  const Ahead<T, P, k_slots> ahead(memory, static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x), k_column_threads);
  const auto start = [&](std::int64_t row, int slot) {
    if (row < part.last_row) fetch(ahead, row, slot);
  };
#pragma unroll
  for (int i = 0; i + 1 < k_slots; ++i) {
    start(part.first_row + i * part.lanes, i);
    ahead.close_first();
  }
  int slot = 0;
  for (std::int64_t r = part.first_row; r < part.last_row; r += part.lanes, slot = (slot + 1) % k_slots) {
    start(r + (k_slots - 1) * part.lanes, (slot + k_slots - 1) % k_slots);
    ahead.close();
    use(ahead, r, slot);
  }
}

// dx = dy f'(x); column sums of dx (before rounding) into `partial` [gridDim.y, F] unless null.
template <class T, int N>
__global__ void __launch_bounds__(k_column_threads, 4)
    backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t columns, Activation kind,
                    float* partial) {
  extern __shared__ uint4 memory[];
  __shared__ float shared[k_column_threads][N + 1];
  const ColumnPart part(rows, columns / N);
  float sum[N] = {};
  const auto finish = [&](const Pack<T, N>& dy_pack, const Pack<T, N>& x_pack, std::int64_t at) {
    float a[N], b[N], d[N];
    unpack(a, dy_pack);
    unpack(b, x_pack);
    derive_pack<T, N>(d, a, b, kind);
    store<T, N>(dx + at, d);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += d[i];
  };
  const auto at = [&](std::int64_t r) { return r * columns + part.access * N; };
  if (part.inside) {
    if constexpr (N == k_pack<T>) {
      walk_rows<T, 2>(
          part, memory,
          [&](const auto& ahead, std::int64_t r, int slot) {
            ahead.fetch(slot, 0, dy + at(r));
            ahead.fetch(slot, 1, x + at(r));
          },
          [&](const auto& ahead, std::int64_t r, int slot) {
            finish(ahead.take(slot, 0), ahead.take(slot, 1), at(r));
          });
    } else {
      for (std::int64_t r = part.first_row; r < part.last_row; r += part.lanes)
        finish(load_pack<T, N>(dy + at(r)), load_pack<T, N>(x + at(r)), at(r));
    }
  }
  if (partial == nullptr) return;
  add_row_lanes<N>(sum, shared);
  if (part.inside && threadIdx.y == 0) store_partial<N>(partial + blockIdx.y * columns + part.access * N, sum);
}

// With s = sigmoid(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s
template <class T, int N>
__global__ void __launch_bounds__(k_column_threads, 3)
    swiglu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t columns, float* partial) {
  extern __shared__ uint4 memory[];
  __shared__ float shared[k_column_threads][N + 1];
  constexpr bool exact = std::is_same_v<T, float>;
  const ColumnPart part(rows, columns / N);
  float gate_sum[N] = {}, up_sum[N] = {};
  const auto finish = [&](const Pack<T, N>& d_pack, const Pack<T, N>& gate_pack, const Pack<T, N>& up_pack,
                          std::int64_t r) {
    float d[N], gate[N], up[N];
    unpack(d, d_pack);
    unpack(gate, gate_pack);
    unpack(up, up_pack);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = sigmoid<exact>(gate[i]), dup = d[i] * gate[i] * s;
      gate[i] = d[i] * up[i] * s * (1.0F + gate[i] * (1.0F - s));
      up[i] = dup;
      gate_sum[i] += gate[i];
      up_sum[i] += up[i];
    }
    T* const at = dx + r * 2 * columns + part.access * N;
    store<T, N>(at, gate);
    store<T, N>(at + columns, up);
  };
  const auto dy_at = [&](std::int64_t r) { return dy + r * columns + part.access * N; };
  const auto x_at = [&](std::int64_t r) { return x + r * 2 * columns + part.access * N; };
  if (part.inside) {
    if constexpr (N == k_pack<T>) {
      walk_rows<T, 3>(
          part, memory,
          [&](const auto& ahead, std::int64_t r, int slot) {
            ahead.fetch(slot, 0, dy_at(r));
            ahead.fetch(slot, 1, x_at(r));
            ahead.fetch(slot, 2, x_at(r) + columns);
          },
          [&](const auto& ahead, std::int64_t r, int slot) {
            finish(ahead.take(slot, 0), ahead.take(slot, 1), ahead.take(slot, 2), r);
          });
    } else {
      for (std::int64_t r = part.first_row; r < part.last_row; r += part.lanes)
        finish(load_pack<T, N>(dy_at(r)), load_pack<T, N>(x_at(r)), load_pack<T, N>(x_at(r) + columns), r);
    }
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
      const dim3 block = column_block(dy.columns() / n);
      const dim3 grid = column_grid(block, dy.rows(), dy.columns() / n, n_multiprocessors_);
      float* partial = nullptr;
      if (db) {
        const auto bytes = static_cast<std::size_t>(grid.y * dx.columns()) * sizeof(float);
        partial = reinterpret_cast<float*>(scratch(bytes));
      }
      const auto bytes_of = [](int packs) {
        return n == k_pack<T> ? std::size_t{16} * packs * k_slots * k_column_threads : 0;
      };
      if (kind == Activation::swiglu) {
        allow_shared(swiglu_backward_kernel<T, n>, bytes_of(3));
        swiglu_backward_kernel<T, n><<<grid, block, bytes_of(3), stream_>>>(dx.ptr<T>(), dy.ptr<T>(), x.ptr<T>(),
                                                                            dy.rows(), dy.columns(), partial);
      } else {
        allow_shared(backward_kernel<T, n>, bytes_of(2));
        backward_kernel<T, n><<<grid, block, bytes_of(2), stream_>>>(dx.ptr<T>(), dy.ptr<T>(), x.ptr<T>(), dy.rows(),
                                                                     dy.columns(), kind, partial);
      }
      check_launch();
      if (db) sum_partials(stream_, partial, grid.y, dx.columns(), db, {}, dx.columns(), into);
    });
  });
}

}  // namespace trireme
