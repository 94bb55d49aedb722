// FP8: rows quantised with a scale of their own in one pass, and the transposed copy that Hopper's products want, made
// from the FP8 bytes themselves. Scales are powers of two, so that the second step only shifts exponents.

#include "check.h"
#include "fp8.cuh"

namespace trireme {

namespace {

constexpr int k_tile = 128;  // of the transposition, in both directions

// One block per row; the largest magnitude is found on the integer bits, where NaN is above everything.
template <__nv_fp8_interpretation_t Format, int Packs>
__global__ void __launch_bounds__(1024) quantize_rows_kernel(std::uint8_t* q, std::int64_t q_pitch, float* scale,
                                                             const bf16* x, std::int64_t x_pitch, int n_packs) {
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x;
  const auto* from = reinterpret_cast<const uint4*>(x + row * x_pitch);
  uint4 held[Packs];
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    held[i] = at < n_packs ? from[at] : uint4{0, 0, 0, 0};
  }
  const float inverse = row_scale<Format, Packs>(held, scale + row, shared);
  auto* to = reinterpret_cast<uint2*>(q + row * q_pitch);
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at < n_packs) to[at] = quantized<Format>(held[i], inverse);
  }
}

// Rows that registers do not hold (vocabularies) are read twice.
template <__nv_fp8_interpretation_t Format>
__global__ void __launch_bounds__(1024) quantize_long_rows_kernel(std::uint8_t* q, std::int64_t q_pitch, float* scale,
                                                                  const bf16* x, std::int64_t x_pitch, int n_packs) {
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x;
  const auto* from = reinterpret_cast<const uint4*>(x + row * x_pitch);
  unsigned largest = 0;
  for (int at = static_cast<int>(threadIdx.x); at < n_packs; at += 1024)
    largest = max(largest, magnitude_bits(from[at]));
  const float needed = scale_of<Format>(__uint_as_float(block_max(largest, shared)), Scales::powers_of_two);
  if (threadIdx.x == 0) scale[row] = needed;
  auto* to = reinterpret_cast<uint2*>(q + row * q_pitch);
  for (int at = static_cast<int>(threadIdx.x); at < n_packs; at += 1024) {
    to[at] = quantized<Format>(from[at], __frcp_rn(needed));
  }
}

// Positive floats are ordered as their bits, NaN above all.
__global__ void largest_scale_kernel(float* out, std::int64_t n_out, const float* scale, std::int64_t n) {
  __shared__ unsigned shared[32];
  unsigned largest = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) largest = max(largest, __float_as_uint(scale[i]));
  largest = block_max(largest, shared);
  for (std::int64_t i = threadIdx.x; i < n_out; i += blockDim.x) out[i] = __uint_as_float(largest);
}

// Four bytes times a power of two not above 1, rounded again.
template <__nv_fp8_interpretation_t Format>
__device__ inline unsigned shifted(unsigned four, __half2 factor) {
  unsigned out = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(four >> (16 * i));
    const __half2 x = __hmul2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, Format)), factor);
    out |= static_cast<unsigned>(__nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(x), __NV_SATFINITE, Format))
           << (16 * i);
  }
  return out;
}

// The same with any factor.
template <__nv_fp8_interpretation_t Format>
__device__ inline unsigned scaled(unsigned four, float factor) {
  unsigned out = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(four >> (16 * i));
    const float2 x = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, Format)));
    const float2 y{x.x * factor, x.y * factor};
    out |= static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(y, __NV_SATFINITE, Format)) << (16 * i);
  }
  return out;
}

// What becomes of the scales: of rows, one; of the 1 x 128 blocks of a tile, one for the tile; or nothing.
enum class Turn : std::uint8_t { rows, blocks, bytes };

// A tile of 128 x 128 bytes by way of shared memory. A thread turns 16 rows by 4 columns; rows are padded by a word per
// four banks every 16 rows, so that neither side meets a bank conflict.
template <__nv_fp8_interpretation_t Format, Turn How>
__global__ void __launch_bounds__(256)
    transpose_kernel(std::uint8_t* out, std::int64_t out_pitch, const std::uint8_t* in, std::int64_t in_pitch,
                     const float* scale_R, float* scale, std::int64_t rows, std::int64_t columns) {
  using Factor = std::conditional_t<How == Turn::rows, __half, float>;
  constexpr int words = k_tile / 4;
  __shared__ unsigned tile[k_tile * words + (k_tile / 16) * 4];
  __shared__ Factor factors[How == Turn::bytes ? 1 : k_tile];
  const std::int64_t row_0 = std::int64_t{blockIdx.y} * k_tile, column_0 = std::int64_t{blockIdx.x} * k_tile;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = thread / 8 + 32 * i, piece = thread % 8;
    uint4 x{0, 0, 0, 0};
    if (row_0 + r < rows && column_0 + 16 * piece < columns) {
      x = *reinterpret_cast<const uint4*>(in + (row_0 + r) * in_pitch + column_0 + 16 * piece);
    }
    *reinterpret_cast<uint4*>(tile + r * words + (r / 16) * 4 + 4 * piece) = x;
  }
  if constexpr (How == Turn::rows) {
    if (thread < k_tile && row_0 + thread < rows) {
      factors[thread] = __float2half_rn(__fdiv_rn(scale_R[row_0 + thread], *scale));
    }
  }
  if constexpr (How == Turn::blocks) {
    __shared__ unsigned shared[32];
    const bool row = thread < k_tile && row_0 + thread < rows, column = thread < k_tile && column_0 + thread < columns;
    const float of_row = row ? scale_R[std::int64_t{blockIdx.x} * rows + row_0 + thread] : 0.0F;
    const float largest = __uint_as_float(block_max(__float_as_uint(of_row), shared));
    if (row) factors[thread] = __fdiv_rn(of_row, largest);
    if (column) scale[std::int64_t{blockIdx.y} * columns + column_0 + thread] = largest;
  }
  __syncthreads();
  const int group = thread % 8, quad = thread / 8;  // rows 16 * group .., columns 4 * quad ..
  unsigned turned[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned four[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = 16 * group + 4 * i + j;
      four[j] = tile[r * words + group * 4 + quad];
      if constexpr (How == Turn::rows) four[j] = shifted<Format>(four[j], __half2half2(factors[r]));
      if constexpr (How == Turn::blocks) four[j] = scaled<Format>(four[j], factors[r]);
    }
    const unsigned low01 = __byte_perm(four[0], four[1], 0x5140), low23 = __byte_perm(four[2], four[3], 0x5140);
    const unsigned high01 = __byte_perm(four[0], four[1], 0x7362), high23 = __byte_perm(four[2], four[3], 0x7362);
    turned[0][i] = __byte_perm(low01, low23, 0x5410);
    turned[1][i] = __byte_perm(low01, low23, 0x7632);
    turned[2][i] = __byte_perm(high01, high23, 0x5410);
    turned[3][i] = __byte_perm(high01, high23, 0x7632);
  }
  if (row_0 + 16 * group >= rows) return;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const std::int64_t column = column_0 + 4 * quad + c;
    if (column >= columns) continue;
    *reinterpret_cast<uint4*>(out + column * out_pitch + row_0 + 16 * group) =
        uint4{turned[c][0], turned[c][1], turned[c][2], turned[c][3]};
  }
}

__global__ void turn_squares_kernel(float* out, int out_pitch, const float* in, int in_pitch, int in_rows) {
  for (int r = static_cast<int>(threadIdx.x); r < out_pitch; r += static_cast<int>(blockDim.x)) {
    out[blockIdx.x * out_pitch + r] = r < in_rows ? in[r * in_pitch + static_cast<int>(blockIdx.x)] : 0.0F;
  }
}

}  // namespace

void CudaBackend::quantize_rows(Tensor q, Tensor scale, Tensor x) {
  require_fp8(q, "quantize_rows()");
  require(q.rows() == x.rows() && q.columns() == x.columns() && scale.count() == x.rows(),
          "quantize_rows(): q [R, C], scale [R], x [R, C]");
  require(x.dtype == DType::bf16 && in_packs(8, {x}), "quantize_rows() reads bf16 in whole 16 bytes");
  if (x.count() == 0) return;
  const RowThreads row(x.columns());
  by_format(q.dtype, [&](auto format) {
    if (row.packs > k_most_packs) {
      quantize_long_rows_kernel<format.value><<<static_cast<unsigned>(x.rows()), 1024, 0, stream_>>>(
          q.ptr<std::uint8_t>(), q.pitch, scale.ptr<float>(), x.ptr<bf16>(), x.pitch, row.n_packs);
      return;
    }
    by_packs(row.packs, [&](auto packs) {
      quantize_rows_kernel<format.value, packs.value><<<static_cast<unsigned>(x.rows()), row.threads, 0, stream_>>>(
          q.ptr<std::uint8_t>(), q.pitch, scale.ptr<float>(), x.ptr<bf16>(), x.pitch, row.n_packs);
    });
  });
  check_launch();
}

void CudaBackend::transpose_quantized(Tensor q_CR, Tensor scale, Tensor q_RC, Tensor scale_R) {
  require_fp8(q_CR, "transpose_quantized()");
  require_fp8(q_RC, "transpose_quantized()");
  const std::int64_t rows = q_RC.rows(), columns = q_RC.columns();
  require(q_CR.rows() == columns && q_CR.columns() == rows && q_CR.dtype == q_RC.dtype,
          "transpose_quantized(): q [C, R], q [R, C]");
  if (q_RC.count() == 0) return;
  const Scaling scaling = scaling_of(q_RC, scale_R);
  require(scaling == Scaling::row || scaling == scaling_of(q_CR, scale),
          "transpose_quantized() keeps the kind of scales");
  require(scaling != Scaling::row || scale_R.count() == rows, "transpose_quantized(): scale [R]");
  if (scaling == Scaling::row) {
    largest_scale_kernel<<<1, 1024, 0, stream_>>>(scale.ptr<float>(), scale.count(), scale_R.ptr<float>(), rows);
  }
  if (scaling == Scaling::tensor) {
    check(cudaMemcpyAsync(scale.data, scale_R.data, sizeof(float), cudaMemcpyDeviceToDevice, stream_));
  }
  if (scaling == Scaling::square) {
    turn_squares_kernel<<<static_cast<unsigned>(scale.rows()), 128, 0, stream_>>>(
        scale.ptr<float>(), static_cast<int>(scale.columns()), scale_R.ptr<float>(),
        static_cast<int>(scale_R.columns()), static_cast<int>(scale_R.rows()));
  }
  const dim3 grid(static_cast<unsigned>(div_up(columns, k_tile)), static_cast<unsigned>(div_up(rows, k_tile)));
  by_format(q_RC.dtype, [&](auto format) {
    const auto launch = [&](auto* kernel) {
      kernel<<<grid, 256, 0, stream_>>>(q_CR.ptr<std::uint8_t>(), q_CR.pitch, q_RC.ptr<std::uint8_t>(), q_RC.pitch,
                                        scale_R.ptr<float>(), scale.ptr<float>(), rows, columns);
    };
    if (scaling == Scaling::row) return launch(transpose_kernel<format.value, Turn::rows>);
    if (scaling == Scaling::block) return launch(transpose_kernel<format.value, Turn::blocks>);
    launch(transpose_kernel<format.value, Turn::bytes>);
  });
  check_launch();
}

}  // namespace trireme
