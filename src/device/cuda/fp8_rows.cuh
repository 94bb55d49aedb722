#pragma once
// Rows of bf16 in the registers of a block, for kernels that make values and quantise them before they meet memory.
// Each value is rounded to bf16 first, so that fused and separate operations give the same bytes.

#include "fp8.cuh"

namespace trireme {

// A block of Threads threads holds a row of up to Packs packs each. The wide form serves rows of 16384 to 49152
// elements with all registers of a multiprocessor; longer rows take the separate operations.
template <int Packs_, int Threads_>
struct Row {
  static constexpr int packs = Packs_, threads = Threads_;
};
using WideRow = Row<6, 1024>;
constexpr int k_narrow_packs = 4, k_narrow_threads = 512;

inline bool is_wide(const RowThreads& row) {
  return row.packs > k_narrow_packs || row.threads > k_narrow_threads;
}

template <class F>
void by_row(const RowThreads& row, F&& f) {
  if (is_wide(row)) return f(WideRow{});
  by_packs(row.packs, [&](auto packs) {
    if constexpr (packs.value <= k_narrow_packs) f(Row<packs.value, k_narrow_threads>{});
  });
}

__device__ inline void widen(float (&v)[8], const uint4& eight) {
  const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = __uint_as_float(words[i] << 16);
    v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}

__device__ inline uint4 narrowed(const float (&v)[8]) {
  const Pack<bf16, 8> pack = packed<bf16>(v);
  return *reinterpret_cast<const uint4*>(&pack);
}

template <int Packs>
__device__ inline void load_row(uint4 (&held)[Packs], const bf16* row, int n_packs) {
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    held[i] = at < n_packs ? reinterpret_cast<const uint4*>(row)[at] : uint4{0, 0, 0, 0};
  }
}

template <__nv_fp8_interpretation_t Format, int Packs>
__device__ inline void store_row(std::uint8_t* row, const uint4 (&held)[Packs], float inverse, int n_packs) {
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at < n_packs) reinterpret_cast<uint2*>(row)[at] = quantized<Format>(held[i], inverse);
  }
}

inline bool in_rows(const Tensor& q, const RowThreads& row, std::initializer_list<Tensor> tensors) {
  if (row.packs > WideRow::packs) return false;
  for (const Tensor& t : tensors) {
    if (t && (t.dtype != DType::bf16 || !t.contiguous() || !in_packs(8, {t}))) return false;
  }
  return q.contiguous() && in_packs(16, {q});
}

}  // namespace trireme
