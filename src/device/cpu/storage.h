#pragma once
// How the CPU kernels touch tensors: rows are read as R (double for f64 storage, float for all others), computed in R
// and rounded once when stored. Tensors whose storage type is R are used in place. No arithmetic here.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "trireme/base/check.h"
#include "trireme/device/backend.h"
#include "trireme/device/tensor.h"

namespace trireme::cpu {

// Elements that a kernel treats at once; its buffers of this length live on the stack and in the first-level cache.
inline constexpr std::int64_t k_block = 1024;

inline float widen(float x) {
  return x;
}
inline double widen(double x) {
  return x;
}
inline float widen(Bf16 x) {
  return static_cast<float>(x);
}

// Branch-free forms of F16::widen and F16::round, which vectorise; tests compare them on all bit patterns.
inline float widen(F16 x) {
  const std::uint32_t u = x.bits, magnitude = (u & 0x7fffU) << 13, sign = (u & 0x8000U) << 16;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;  // exact, subnormals included
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | ((u & 0x7c00U) == 0x7c00U ? magnitude | 0x7f800000U : finite));
}

inline std::uint16_t round_f16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 16) & 0x8000U, magnitude = u & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < 0x38800000U ? small : normal;
  return static_cast<std::uint16_t>(sign | (magnitude >= 0x477ff000U ? special : finite));
}

// f64 goes to 16 bits through float.
template <class To, class From>
To narrow(From x) {
  if constexpr (std::is_same_v<To, F16>) {
    F16 y;
    y.bits = round_f16(static_cast<float>(x));
    return y;
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return Bf16(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

[[noreturn]] inline void refuse(DType dtype) {
  throw std::logic_error(
      std::string("internal error: the CPU backend computes with f64, f32, bf16 and f16, not with ") + name_of(dtype));
}

// f(double{}), f(float{}), f(Bf16{}) or f(F16{}).
template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::f16:
      return f(F16{});
    default:
      refuse(dtype);
  }
}

// f(double{}) for f64, f(float{}) for the other types: the arithmetic. Outside of threads, where an exception may
// leave.
template <class F>
void with_real(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return f(float{});
    default:
      refuse(dtype);
  }
}

template <class R>
inline constexpr DType k_dtype_of = std::is_same_v<R, double> ? DType::f64 : DType::f32;

template <class T>
T* address(const Tensor& t, std::int64_t row, std::int64_t column) {
  return t.ptr<T>() + row * t.pitch + column;
}

// n elements of `row` from `column` on: in place, or widened into `buffer`.
template <class R>
const R* read(const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t n, R* buffer) {
  if (t.dtype == k_dtype_of<R>) return address<R>(t, row, column);
  with_type(t.dtype, [&]<class T>(T) {
    const T* from = address<T>(t, row, column);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<R>(widen(from[i]));
  });
  return buffer;
}

// Where to compute n elements that store() will take: in place, or in `buffer`.
template <class R>
R* target(const Tensor& t, std::int64_t row, std::int64_t column, R* buffer) {
  return t.dtype == k_dtype_of<R> ? address<R>(t, row, column) : buffer;
}

template <class R>
void store(const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t n, const R* from) {
  if (t.dtype == k_dtype_of<R>) {
    R* to = address<R>(t, row, column);
    if (to != from) std::copy(from, from + n, to);
    return;
  }
  with_type(t.dtype, [&]<class T>(T) {
    T* to = address<T>(t, row, column);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = narrow<T>(from[i]);
  });
}

// (+)= of at most k_block elements.
template <class R>
void store_into(const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t n, R* from, Into into) {
  if (into == Into::add) {
    R buffer[k_block];
    const R* old = read(t, row, column, n, buffer);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) from[i] += old[i];
  }
  store(t, row, column, n, from);
}

}  // namespace trireme::cpu
