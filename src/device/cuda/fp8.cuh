#pragma once
// What kernels that write FP8 rows share. A block owns a row: every thread holds some of its 16-byte packs of bf16
// until the row's largest magnitude, and with it the scale, is known.

#include <cuda_fp8.h>

#include "kernels.cuh"

namespace trireme {

inline constexpr int k_most_packs = 8;  // per thread

template <__nv_fp8_interpretation_t Format>
inline constexpr float k_largest = Format == __NV_E4M3 ? 448.0F : 57344.0F;

// fp8_scale() of base/fp8.h, as the bits of the float.
template <__nv_fp8_interpretation_t Format>
__device__ inline unsigned scale_bits(float absmax) {
  const unsigned u = __float_as_uint(__fdiv_rn(absmax, k_largest<Format>));
  if (u >= 0x7f800000U) return 0x7fffffffU;
  const unsigned exponent = (u >> 23) + ((u & 0x7fffffU) != 0 ? 1U : 0U);
  return max(exponent, 27U) << 23;  // 2^-100
}

// fp8_scale() with any scale.
template <__nv_fp8_interpretation_t Format>
__device__ inline float scale_of(float absmax, Scales scales) {
  const float quotient = __fdiv_rn(absmax, k_largest<Format>);
  if (__float_as_uint(quotient) >= 0x7f800000U) return __uint_as_float(0x7fffffffU);
  if (scales == Scales::any) return fmaxf(quotient, __uint_as_float(27U << 23));
  return __uint_as_float(scale_bits<Format>(absmax));
}

// Bits of the largest magnitude among eight bf16 numbers, NaN above everything, as those of a float.
__device__ inline unsigned magnitude_bits(const uint4& eight) {
  const unsigned a = __vmaxu2(eight.x & 0x7fff7fffU, eight.y & 0x7fff7fffU);
  const unsigned b = __vmaxu2(a, __vmaxu2(eight.z & 0x7fff7fffU, eight.w & 0x7fff7fffU));
  return max(b & 0xffffU, b >> 16) << 16;
}

__device__ inline unsigned block_max(unsigned x, unsigned* shared) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(0xffffffffU, x, step));
  const unsigned n_warps = blockDim.x / 32;
  if (n_warps == 1) return x;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  for (unsigned w = 0; w < n_warps; ++w) x = max(x, shared[w]);
  return x;
}

template <__nv_fp8_interpretation_t Format>
__device__ inline uint2 quantized(const uint4& eight, float inverse) {
  const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
  unsigned out[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x{__uint_as_float(words[i] << 16) * inverse, __uint_as_float(words[i] & 0xffff0000U) * inverse};
    const unsigned pair = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, Format);
    out[i / 2] |= pair << (16 * (i % 2));
  }
  return {out[0], out[1]};
}

// The row's scale, written to *scale by one thread; returns 1 / scale. The largest magnitude is found on the integer
// bits of the bf16 numbers, where NaN is above everything. `shared`: 32 words, free again after the next barrier.
template <__nv_fp8_interpretation_t Format, int Packs>
__device__ inline float row_scale(const uint4 (&held)[Packs], float* scale, unsigned* shared) {
  unsigned largest = 0;
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const unsigned a = __vmaxu2(held[i].x & 0x7fff7fffU, held[i].y & 0x7fff7fffU);
    largest = __vmaxu2(largest, __vmaxu2(a, __vmaxu2(held[i].z & 0x7fff7fffU, held[i].w & 0x7fff7fffU)));
  }
  largest = block_max(max(largest & 0xffffU, largest >> 16), shared);
  const unsigned bits = scale_bits<Format>(__uint_as_float(largest << 16));
  if (threadIdx.x == 0) *scale = __uint_as_float(bits);
  return bits == 0x7fffffffU ? __uint_as_float(bits) : __uint_as_float((254U << 23) - bits);
}

// --- host side

// Threads of a block that holds a row of `columns` bf16 elements, about four packs each.
struct RowThreads {
  int n_packs;
  unsigned threads;
  std::int64_t packs;  // per thread
  explicit RowThreads(std::int64_t columns)
      : n_packs(static_cast<int>(columns / 8)),
        threads(static_cast<unsigned>(std::min<std::int64_t>(1024, round_up(div_up(std::int64_t{n_packs}, 4), 32)))),
        packs(div_up(std::int64_t{n_packs}, std::int64_t{threads})) {}
};

inline void require_fp8(const Tensor& q, const char* what) {
  require(q.dtype == DType::e4m3 || q.dtype == DType::e5m2, std::string(what) + " needs e4m3 or e5m2");
  require(in_packs(16, {q}), std::string(what) + " needs rows of whole 16 bytes");
}

template <class F>
void by_format(DType dtype, F&& f) {
  if (dtype == DType::e4m3) return f(std::integral_constant<__nv_fp8_interpretation_t, __NV_E4M3>{});
  f(std::integral_constant<__nv_fp8_interpretation_t, __NV_E5M2>{});
}

template <class F>
void by_packs(std::int64_t per_thread, F&& f) {
  if (per_thread <= 1) return f(std::integral_constant<int, 1>{});
  if (per_thread <= 2) return f(std::integral_constant<int, 2>{});
  if (per_thread <= 4) return f(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, k_most_packs>{});
}

}  // namespace trireme
