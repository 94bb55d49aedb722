// FP8 with a scale per 1 x 128 block, per 128 x 128 square, or per tensor.

#include "check.h"
#include "fp8.cuh"

namespace trireme {

namespace {

constexpr int k_block_packs = static_cast<int>(k_scale_block / 8);  // of a row of a block
constexpr int k_threads = 256;

// Rows of packs in memory, numbered through.
struct Packs {
  const bf16* x;
  std::int64_t pitch;
  unsigned per_row, count;
  explicit Packs(const Tensor& t)
      : x(t.ptr<bf16>()),
        pitch(t.pitch),
        per_row(static_cast<unsigned>(t.columns() / 8)),
        count(static_cast<unsigned>(t.count() / 8)) {
    require(t.count() / 8 < (std::int64_t{1} << 31), "an fp8 matrix has less than 2^34 elements");
  }
  __device__ uint4 operator[](unsigned i) const {
    const unsigned row = i / per_row;
    return reinterpret_cast<const uint4*>(x + row * pitch)[i - row * per_row];
  }
};

__global__ void __launch_bounds__(k_threads) largest_kernel(unsigned* out, Packs x) {
  __shared__ unsigned shared[32];
  unsigned largest = 0;
  const unsigned step = gridDim.x * k_threads;
  for (unsigned i = blockIdx.x * k_threads + threadIdx.x; i < x.count; i += step) {
    largest = max(largest, magnitude_bits(x[i]));
  }
  largest = block_max(largest, shared);
  if (threadIdx.x == 0) atomicMax(out, largest);
}

template <__nv_fp8_interpretation_t Format>
__global__ void scale_kernel(float* scale, const float* largest, Scales scales) {
  *scale = scale_of<Format>(*largest, scales);
}

template <__nv_fp8_interpretation_t Format>
__global__ void __launch_bounds__(k_threads)
    quantize_kernel(std::uint8_t* q, std::int64_t q_pitch, Packs x, const float* scale) {
  const float inverse = __frcp_rn(*scale);
  const unsigned step = gridDim.x * k_threads;
  for (unsigned i = blockIdx.x * k_threads + threadIdx.x; i < x.count; i += step) {
    const unsigned row = i / x.per_row;
    reinterpret_cast<uint2*>(q + row * q_pitch)[i - row * x.per_row] = quantized<Format>(x[i], inverse);
  }
}

struct Matrix {
  std::uint8_t* q;
  std::int64_t q_pitch;
  const bf16* x;
  std::int64_t x_pitch, rows;
  int n_packs;
};

// 16 threads take a block of a row, a thread block 16 neighbouring rows, whose scales are neighbours too.
template <__nv_fp8_interpretation_t Format>
__global__ void __launch_bounds__(k_threads) blocks_kernel(Matrix m, float* scale, Scales scales) {
  const std::int64_t row = std::int64_t{blockIdx.y} * (k_threads / k_block_packs) + threadIdx.x / k_block_packs;
  const int at = static_cast<int>(blockIdx.x * k_block_packs + threadIdx.x % k_block_packs);
  const bool inside = row < m.rows && at < m.n_packs;
  const uint4 held = inside ? reinterpret_cast<const uint4*>(m.x + row * m.x_pitch)[at] : uint4{0, 0, 0, 0};
  unsigned largest = magnitude_bits(held);
#pragma unroll
  for (int step = k_block_packs / 2; step > 0; step /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, step));
  }
  const float needed = scale_of<Format>(__uint_as_float(largest), scales);
  if (threadIdx.x % k_block_packs == 0 && row < m.rows) scale[blockIdx.x * m.rows + row] = needed;
  if (inside) reinterpret_cast<uint2*>(m.q + row * m.q_pitch)[at] = quantized<Format>(held, __frcp_rn(needed));
}

// A thread block takes a square, a thread eight packs of it.
template <__nv_fp8_interpretation_t Format>
__global__ void __launch_bounds__(k_threads) squares_kernel(Matrix m, float* scale, int scale_pitch, Scales scales) {
  constexpr int packs = static_cast<int>(k_scale_block) * k_block_packs / k_threads;
  __shared__ unsigned shared[32];
  uint4 held[packs];
  unsigned largest = 0;
  const int at = static_cast<int>(blockIdx.x * k_block_packs + threadIdx.x % k_block_packs);
  const std::int64_t first_row = std::int64_t{blockIdx.y} * k_scale_block + threadIdx.x / k_block_packs;
#pragma unroll
  for (int i = 0; i < packs; ++i) {
    const std::int64_t row = first_row + i * (k_threads / k_block_packs);
    const bool inside = row < m.rows && at < m.n_packs;
    held[i] = inside ? reinterpret_cast<const uint4*>(m.x + row * m.x_pitch)[at] : uint4{0, 0, 0, 0};
    largest = max(largest, magnitude_bits(held[i]));
  }
  const float needed = scale_of<Format>(__uint_as_float(block_max(largest, shared)), scales);
  if (threadIdx.x == 0) scale[blockIdx.y * scale_pitch + blockIdx.x] = needed;
  // What rounding up to 4 added at the end of the row.
  const int extra = static_cast<int>(gridDim.x + threadIdx.x);
  if (blockIdx.x == gridDim.x - 1 && extra < scale_pitch) scale[blockIdx.y * scale_pitch + extra] = 0;
  const float inverse = __frcp_rn(needed);
#pragma unroll
  for (int i = 0; i < packs; ++i) {
    const std::int64_t row = first_row + i * (k_threads / k_block_packs);
    if (row < m.rows && at < m.n_packs) {
      reinterpret_cast<uint2*>(m.q + row * m.q_pitch)[at] = quantized<Format>(held[i], inverse);
    }
  }
}

void require_bf16(const Tensor& x, const char* what) {
  require(x.dtype == DType::bf16 && in_packs(8, {x}), std::string(what) + " reads bf16 in whole 16 bytes");
}

void require_same(const Tensor& q, const Tensor& x, const char* what) {
  require_fp8(q, what);
  require_bf16(x, what);
  require(q.rows() == x.rows() && q.columns() == x.columns(), std::string(what) + ": q [R, C], x [R, C]");
}

unsigned blocks_of(unsigned n_packs, int n_multiprocessors) {
  return static_cast<unsigned>(blocks_for(n_packs, k_threads, std::int64_t{n_multiprocessors} * 8));
}

}  // namespace

void CudaBackend::largest_magnitude(Tensor out_1, Tensor x) {
  require_bf16(x, "largest_magnitude()");
  check(cudaMemsetAsync(out_1.data, 0, sizeof(float), stream_));
  if (x.count() == 0) return;
  const Packs packs(x);
  largest_kernel<<<blocks_of(packs.count, n_multiprocessors_), k_threads, 0, stream_>>>(out_1.ptr<unsigned>(), packs);
  check_launch();
}

void CudaBackend::scale_for(Tensor scale_1, Tensor largest_1, DType format, Scales scales) {
  by_format(format, [&](auto f) {
    scale_kernel<f.value><<<1, 1, 0, stream_>>>(scale_1.ptr<float>(), largest_1.ptr<float>(), scales);
  });
  check_launch();
}

void CudaBackend::quantize(Tensor q, Tensor x, Tensor scale_1) {
  require_same(q, x, "quantize()");
  require(scale_1.count() == 1, "quantize() has one scale");
  if (x.count() == 0) return;
  const Packs packs(x);
  by_format(q.dtype, [&](auto format) {
    quantize_kernel<format.value><<<blocks_of(packs.count, n_multiprocessors_), k_threads, 0, stream_>>>(
        q.ptr<std::uint8_t>(), q.pitch, packs, scale_1.ptr<float>());
  });
  check_launch();
}

void CudaBackend::quantize_blocks(Tensor q, Tensor scale, Tensor x, Scales scales) {
  require_same(q, x, "quantize_blocks()");
  if (x.count() == 0) return;
  const Matrix m{q.ptr<std::uint8_t>(), q.pitch, x.ptr<bf16>(), x.pitch, x.rows(), static_cast<int>(x.columns() / 8)};
  const bool square = scaling_of(q, scale) == Scaling::square;
  const std::int64_t rows_of_block = square ? k_scale_block : k_threads / k_block_packs;
  const dim3 grid(static_cast<unsigned>(div_up(x.columns(), k_scale_block)),
                  static_cast<unsigned>(div_up(x.rows(), rows_of_block)));
  by_format(q.dtype, [&](auto format) {
    if (square) {
      squares_kernel<format.value>
          <<<grid, k_threads, 0, stream_>>>(m, scale.ptr<float>(), static_cast<int>(scale.columns()), scales);
    } else {
      blocks_kernel<format.value><<<grid, k_threads, 0, stream_>>>(m, scale.ptr<float>(), scales);
    }
  });
  check_launch();
}

}  // namespace trireme
