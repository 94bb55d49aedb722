// Sums in a fixed order: shares per block into scratch memory, then one small kernel that adds the shares.

#include "columns.cuh"
#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;

// One warp-wide column tile per block; 32 lanes of rows, then a fixed tree over them.
__global__ void sum_partials_kernel(const float* partial, std::int64_t rows, std::int64_t columns, void* first,
                                    void* second, std::int64_t split, DType dtype, bool add) {
  __shared__ float shared[32][33];
  const std::int64_t c = blockIdx.x * std::int64_t{32} + threadIdx.x;
  float sum = 0.0F;
  if (c < columns) {
    for (std::int64_t r = threadIdx.y; r < rows; r += 32) sum += partial[r * columns + c];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(shared[threadIdx.x][threadIdx.y]);
  const std::int64_t out_c = blockIdx.x * std::int64_t{32} + threadIdx.y;
  if (threadIdx.x != 0 || out_c >= columns) return;
  void* const out = out_c < split ? first : second;
  if (out == nullptr) return;
  const std::int64_t i = out_c < split ? out_c : out_c - split;
  store_any(out, dtype, i, add ? load_any(out, dtype, i) + total : total);
}

template <class T, int N>
__global__ void __launch_bounds__(k_column_threads)
    sum_rows_kernel(const T* x, std::int64_t pitch, std::int64_t rows, std::int64_t columns, float* partial) {
  __shared__ float shared[k_column_threads][N + 1];
  const ColumnPart part(rows, columns / N);
  float sum[N] = {};
  if (part.inside) {
#pragma unroll 4
    for (std::int64_t r = part.first_row; r < part.last_row; r += part.lanes) {
      float v[N];
      load<T, N>(v, x + r * pitch + part.access * N);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
  }
  add_row_lanes<N>(sum, shared);
  if (part.inside && threadIdx.y == 0) store_partial<N>(partial + blockIdx.y * columns + part.access * N, sum);
}

template <class T, int N, bool squares>
__global__ void sum_kernel(const T* x, std::int64_t accesses, std::int64_t count, double* partial) {
  __shared__ double shared[k_threads / 32];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t i = thread; i < accesses; i += stride) {
    float v[N], s = 0.0F;
    load<T, N>(v, x + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) s += squares ? v[j] * v[j] : v[j];
    sum += s;
  }
  const std::int64_t tail = accesses * N + thread;
  if (tail < count) {
    const double v = to_float(x[tail]);
    sum += squares ? v * v : v;
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void sum_shares_kernel(double* out, const double* partial, int n) {
  __shared__ double shared[k_threads / 32];
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += k_threads) sum += partial[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) *out += sum;
}

template <bool squares>
void run_sum(CudaBackend& backend, const Tensor& out, const Tensor& x) {
  require(out.dtype == DType::f64 && x.contiguous(), "sum() adds a contiguous tensor to one f64");
  if (x.count() == 0) return;
  by_storage("sum()", x.dtype, [&](auto t) {
    using T = decltype(t);
    const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
    by_width<T>(aligned && x.count() >= k_pack<T>, [&](auto width) {
      constexpr int n = decltype(width)::value;
      const int blocks = blocks_for(div_up(x.count(), n), k_threads, std::int64_t{backend.n_multiprocessors()} * 8);
      auto* const partial =
          reinterpret_cast<double*>(backend.scratch(static_cast<std::size_t>(blocks) * sizeof(double)));
      sum_kernel<T, n, squares>
          <<<blocks, k_threads, 0, backend.stream()>>>(x.ptr<T>(), x.count() / n, x.count(), partial);
      check_launch();
      sum_shares_kernel<<<1, k_threads, 0, backend.stream()>>>(out.ptr<double>(), partial, blocks);
    });
  });
  check_launch();
}

}  // namespace

void sum_partials(cudaStream_t stream, const float* partial, std::int64_t rows, std::int64_t columns, Tensor first,
                  Tensor second, std::int64_t split, Into into) {
  if (!first && !second) return;
  const DType dtype = first ? first.dtype : second.dtype;
  require(!second || second.dtype == dtype, "sums that are made together need one dtype");
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) refuse("sums", dtype);
  sum_partials_kernel<<<static_cast<unsigned>(div_up(columns, 32)), dim3(32, 32), 0, stream>>>(
      partial, rows, columns, first.data, second.data, split, dtype, into == Into::add);
  check_launch();
}

void CudaBackend::sum_rows(Tensor db, Tensor dy, Into into) {
  if (dy.rows() == 0) return;
  by_storage("sum_rows()", dy.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {dy}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const dim3 block = column_block(dy.columns() / n);
      const dim3 grid = column_grid(block, dy.rows(), dy.columns() / n, n_multiprocessors_);
      auto* const partial = reinterpret_cast<float*>(
          scratch(static_cast<std::size_t>(grid.y) * static_cast<std::size_t>(dy.columns()) * sizeof(float)));
      sum_rows_kernel<T, n><<<grid, block, 0, stream_>>>(dy.ptr<T>(), dy.pitch, dy.rows(), dy.columns(), partial);
      check_launch();
      sum_partials(stream_, partial, grid.y, dy.columns(), db, {}, dy.columns(), into);
    });
  });
}

void CudaBackend::sum(Tensor out, Tensor x) {
  run_sum<false>(*this, out, x);
}
void CudaBackend::sum_of_squares(Tensor out, Tensor x) {
  run_sum<true>(*this, out, x);
}

}  // namespace trireme
