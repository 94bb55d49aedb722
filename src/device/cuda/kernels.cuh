#pragma once
// What the kernels share: 16-byte accesses that convert to float, reductions in a fixed order, dispatch over dtypes.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <initializer_list>
#include <string>
#include <type_traits>

#include "check.h"
#include "cuda_backend.h"
#include "trireme/device/tensor.h"

namespace trireme {

using bf16 = __nv_bfloat16;
using half = __half;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(bf16 x) {
  return __bfloat162float(x);
}
__device__ inline float to_float(half x) {
  return __half2float(x);
}
template <class T>
__device__ inline T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) return x;
  if constexpr (std::is_same_v<T, bf16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_same_v<T, half>) return __float2half_rn(x);
}

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T x[N];
};
template <class T>
inline constexpr int k_pack = 16 / sizeof(T);  // elements of a 16-byte access

template <class T, int N>
__device__ inline Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <class T, int N>
__device__ inline void unpack(float (&r)[N], const Pack<T, N>& pack) {
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = to_float(pack.x[i]);
}
template <class T, int N>
__device__ inline void load(float (&r)[N], const T* p) {
  unpack(r, load_pack<T, N>(p));
}
// Two values are rounded by one instruction.
template <class T, int N>
__device__ inline Pack<T, N> packed(const float (&r)[N]) {
  Pack<T, N> pack;
  if constexpr (N == 1 || std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.x[i] = from_float<T>(r[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      if constexpr (std::is_same_v<T, bf16>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(r[i], r[i + 1]);
        pack.x[i] = pair.x, pack.x[i + 1] = pair.y;
      } else {
        const __half2 pair = __floats2half2_rn(r[i], r[i + 1]);
        pack.x[i] = pair.x, pack.x[i + 1] = pair.y;
      }
    }
  }
  return pack;
}
template <class T, int N>
__device__ inline void store_pack(T* p, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}
template <class T, int N>
__device__ inline void store(T* p, const float (&r)[N]) {
  store_pack(p, packed<T>(r));
}

// To two units in the last place of f32, without the care for results below 2^-126, which become 0.
__device__ inline float fast_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634F));
  return y;
}
__device__ inline float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// One element of a tensor whose dtype is known at run time only; for code that is not bound by memory.
__device__ inline float load_any(const void* p, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(p)[i];
  if (dtype == DType::bf16) return to_float(static_cast<const bf16*>(p)[i]);
  return to_float(static_cast<const half*>(p)[i]);
}
__device__ inline void store_any(void* p, DType dtype, std::int64_t i, float x) {
  if (dtype == DType::f32) {
    static_cast<float*>(p)[i] = x;
  } else if (dtype == DType::bf16) {
    static_cast<bf16*>(p)[i] = from_float<bf16>(x);
  } else {
    static_cast<half*>(p)[i] = from_float<half>(x);
  }
}

// Sum over the 2^k lanes of a group inside a warp; every lane gets it.
template <class T>
__device__ inline T group_sum(T x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}
template <class T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}
// Sum over the block, given to every thread; `shared` has one element per warp and is not reused before the next
// barrier.
template <class T>
__device__ inline T block_sum(T x, T* shared) {
  x = warp_sum(x);
  const int n_warps = static_cast<int>(blockDim.x + 31) / 32;
  if (n_warps == 1) return x;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  T total = shared[0];
  for (int w = 1; w < n_warps; ++w) total += shared[w];
  return total;
}

// --- host side

[[noreturn]] inline void refuse(const char* op, DType dtype) {
  throw Error(Exit::usage, std::string("CUDA has no ") + op + " for " + name_of(dtype) +
                               ": set precision.compute to \"fp32\", \"bf16\" or \"fp16\", or device.kind = \"cpu\"");
}

template <class F>
void by_storage(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(half{});
    default:
      refuse(op, dtype);
  }
}

// f is called with an integral_constant: elements per access, 16 bytes' worth or 1.
template <class T, class F>
void by_width(bool wide, F&& f) {
  if (wide) return f(std::integral_constant<int, k_pack<T>>{});
  f(std::integral_constant<int, 1>{});
}

// Every row of every tensor can be read in accesses of n elements of at most 16 bytes. Absent tensors do not matter.
inline bool in_packs(int n, std::initializer_list<Tensor> tensors) {
  for (const Tensor& t : tensors) {
    if (!t) continue;
    const std::size_t access = std::min<std::size_t>(16, static_cast<std::size_t>(n) * size_of(t.dtype));
    const auto address = reinterpret_cast<std::uintptr_t>(t.data);
    const bool rows = t.contiguous() || (static_cast<std::size_t>(t.pitch) * size_of(t.dtype)) % access == 0;
    if (address % access != 0 || !rows) return false;
    if ((t.shape.rank == 1 ? t.count() : t.columns()) % n != 0) return false;
  }
  return true;
}

inline int blocks_for(std::int64_t n, int threads, std::int64_t limit) {
  return static_cast<int>(std::max<std::int64_t>(1, std::min(div_up(n, threads), limit)));
}

// out[c] (+)= sum over r of partial[r, c], in a fixed order; columns from `split` on go to second[c - split].
void sum_partials(cudaStream_t stream, const float* partial_RC, std::int64_t rows, std::int64_t columns, Tensor first,
                  Tensor second, std::int64_t split, Into into);

}  // namespace trireme
