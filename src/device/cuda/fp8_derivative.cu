// FP8 rows of the gradient through an activation, and with them the gradient of its bias.

#include "activation.cuh"
#include "check.h"
#include "fp8_rows.cuh"

namespace trireme {

namespace {

// Sums over rows of the columns that a thread owns, in its registers, or for wide rows in shared memory, eight columns
// as two float4 a row of packs apart, so that neighbours meet no bank conflict.
template <class Row, bool InRegisters = (Row::threads <= k_narrow_threads)>
class ColumnSums {
 public:
  __device__ explicit ColumnSums(int) {}
  __device__ void add(int i, const float (&dx)[8]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sums_[i][j] += dx[j];
  }
  __device__ void get(int i, float (&sum)[8]) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] = sums_[i][j];
  }

 private:
  float sums_[Row::packs][8] = {};
};

extern __shared__ float4 column_sums[];

template <class Row>
class ColumnSums<Row, false> {
 public:
  __device__ explicit ColumnSums(int n_packs) : n_packs_(n_packs) {
    for (unsigned at = threadIdx.x; at < static_cast<unsigned>(2 * n_packs); at += blockDim.x) column_sums[at] = {};
    __syncthreads();
  }
  __device__ void add(int i, const float (&dx)[8]) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= n_packs_) return;
    float sum[8];
    get(i, sum);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += dx[j];
    column_sums[at] = {sum[0], sum[1], sum[2], sum[3]};
    column_sums[n_packs_ + at] = {sum[4], sum[5], sum[6], sum[7]};
  }
  __device__ void get(int i, float (&sum)[8]) const {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    const float4 low = column_sums[at], high = column_sums[n_packs_ + at];
    sum[0] = low.x, sum[1] = low.y, sum[2] = low.z, sum[3] = low.w;
    sum[4] = high.x, sum[5] = high.y, sum[6] = high.z, sum[7] = high.w;
  }

 private:
  int n_packs_;
};

template <bool WithSums, class Row>
struct Sums {
  using type = ColumnSums<Row>;
};
template <class Row>
struct Sums<false, Row> {  // no bias: nothing to add
  struct type {
    __device__ explicit type(int) {}
    __device__ void add(int, const float (&)[8]) {}
    __device__ void get(int, float (&)[8]) const {}
  };
};

// A block takes a run of rows and a thread the same columns of each, so that it can sum them for the bias.
template <__nv_fp8_interpretation_t Format, class Row, bool WithSums>
__global__ void __launch_bounds__(Row::threads)
    derivative_rows_kernel(std::uint8_t* q, float* scale, const bf16* dy, const bf16* x, std::int64_t rows, int n_packs,
                           Activation kind, float* partial) {
  constexpr int Packs = Row::packs;
  __shared__ unsigned shared[2][32];
  const std::int64_t columns = std::int64_t{n_packs} * 8;
  const std::int64_t first = rows * blockIdx.x / gridDim.x, last = rows * (blockIdx.x + 1) / gridDim.x;
  typename Sums<WithSums, Row>::type sums(n_packs);
  for (std::int64_t row = first; row < last; ++row) {
    uint4 held[Packs], before[Packs];
    load_row(held, dy + row * columns, n_packs);
    load_row(before, x + row * columns, n_packs);
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      float d[8], v[8], dx[8];
      widen(d, held[i]);
      widen(v, before[i]);
      derive_pack<bf16, 8>(dx, d, v, kind);
      sums.add(i, dx);
      held[i] = narrowed(dx);
    }
    const float inverse = row_scale<Format, Packs>(held, scale + row, shared[row % 2]);
    store_row<Format, Packs>(q + row * columns, held, inverse, n_packs);
  }
  if constexpr (WithSums) {
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
      if (at >= n_packs) continue;
      float sum[8];
      sums.get(i, sum);
#pragma unroll
      for (int j = 0; j < 8; ++j) partial[blockIdx.x * columns + at * 8 + j] = sum[j];
    }
  }
}

// dx has the columns of gate and up.
template <__nv_fp8_interpretation_t Format, class Row>
__global__ void __launch_bounds__(Row::threads)
    swiglu_derivative_rows_kernel(std::uint8_t* q, float* scale, const bf16* dy, const bf16* x, int n_packs) {
  constexpr int Packs = Row::packs;
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x, columns = std::int64_t{n_packs} * 8;
  uint4 held[2 * Packs], d_packs[Packs], gates[Packs], ups[Packs];
  load_row(d_packs, dy + row * columns, n_packs);
  load_row(gates, x + 2 * row * columns, n_packs);
  load_row(ups, x + (2 * row + 1) * columns, n_packs);
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    float d[8], gate[8], up[8];
    widen(d, d_packs[i]);
    widen(gate, gates[i]);
    widen(up, ups[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float s = sigmoid<false>(gate[j]), dup = d[j] * gate[j] * s;
      gate[j] = d[j] * up[j] * s * (1.0F + gate[j] * (1.0F - s));
      up[j] = dup;
    }
    held[2 * i] = narrowed(gate);
    held[2 * i + 1] = narrowed(up);
  }
  const float inverse = row_scale<Format, 2 * Packs>(held, scale + row, shared);
  auto* const to = reinterpret_cast<uint2*>(q + 2 * row * columns);
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= n_packs) continue;
    to[at] = quantized<Format>(held[2 * i], inverse);
    to[n_packs + at] = quantized<Format>(held[2 * i + 1], inverse);
  }
}

}  // namespace

void CudaBackend::activation_backward_quantize(Tensor q, Tensor scale, Tensor dx, Tensor db, Tensor dy, Tensor x,
                                               Activation kind, Into into) {
  const RowThreads row(dy.columns());
  const bool gated = kind == Activation::swiglu;
  if (!in_rows(q, row, {dy, x}) || dy.rows() == 0 || (gated && db)) {
    return Backend::activation_backward_quantize(q, scale, dx, db, dy, x, kind, into);
  }
  // Column sums in shared memory leave room for one block per multiprocessor.
  const std::int64_t n_blocks = std::min(dy.rows(), std::int64_t{n_multiprocessors_} * (db && is_wide(row) ? 1 : 4));
  float* partial = nullptr;
  if (db) {
    partial = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(n_blocks * dy.columns()) * sizeof(float)));
  }
  by_format(q.dtype, [&](auto format) {
    by_row(row, [&](auto shape) {
      using Shape = decltype(shape);
      if (gated) {
        swiglu_derivative_rows_kernel<format.value, Shape>
            <<<static_cast<unsigned>(dy.rows()), row.threads, 0, stream_>>>(q.ptr<std::uint8_t>(), scale.ptr<float>(),
                                                                            dy.ptr<bf16>(), x.ptr<bf16>(), row.n_packs);
        return;
      }
      const auto launch = [&](auto* kernel, std::size_t shared) {
        if (shared > 0) {
          check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
        }
        kernel<<<static_cast<unsigned>(n_blocks), row.threads, shared, stream_>>>(
            q.ptr<std::uint8_t>(), scale.ptr<float>(), dy.ptr<bf16>(), x.ptr<bf16>(), dy.rows(), row.n_packs, kind,
            partial);
      };
      const std::size_t sums = is_wide(row) ? static_cast<std::size_t>(dy.columns()) * sizeof(float) : 0;
      if (db) return launch(derivative_rows_kernel<format.value, Shape, true>, sums);
      launch(derivative_rows_kernel<format.value, Shape, false>, 0);
    });
  });
  check_launch();
  if (db) sum_partials(stream_, partial, n_blocks, dy.columns(), db, {}, dy.columns(), into);
}

}  // namespace trireme
