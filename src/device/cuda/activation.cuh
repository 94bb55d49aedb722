#pragma once
// Activations and their derivatives of values in registers.

#include "kernels.cuh"

namespace trireme {

inline constexpr float k_gelu_scale = 0.7978845608028654F;  // sqrt(2/pi)
inline constexpr float k_gelu_cubic = 0.044715F;

// 16-bit results need no more than the fast exponential and reciprocal.
template <bool exact>
__device__ inline float sigmoid(float x) {
  if constexpr (exact) return 1.0F / (1.0F + expf(-x));
  return fast_reciprocal(1.0F + fast_exp(-x));
}

// gelu_tanh(x) = x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
template <bool exact>
__device__ inline float activate(float x, Activation kind) {
  if (kind == Activation::gelu_tanh) {
    return x * sigmoid<exact>(2.0F * k_gelu_scale * (x + k_gelu_cubic * x * x * x));
  }
  if (kind == Activation::gelu_erf) return 0.5F * x * (1.0F + erff(x * 0.7071067811865476F));
  const float positive = fmaxf(x, 0.0F);
  return positive * positive;
}

template <bool exact>
__device__ inline float derivative(float x, Activation kind) {
  if (kind == Activation::gelu_tanh) {
    const float s = sigmoid<exact>(2.0F * k_gelu_scale * (x + k_gelu_cubic * x * x * x));
    return s + x * s * (1.0F - s) * 2.0F * k_gelu_scale * (1.0F + 3.0F * k_gelu_cubic * x * x);
  }
  if (kind == Activation::gelu_erf) {
    const float density = 0.3989422804014327F * (exact ? expf(-0.5F * x * x) : fast_exp(-0.5F * x * x));
    return 0.5F * (1.0F + erff(x * 0.7071067811865476F)) + x * density;
  }
  return 2.0F * fmaxf(x, 0.0F);
}

// Four elements in flight would not help: the branch on `kind` is the same for the whole grid.
template <class T, int N>
__device__ inline void activate_pack(float (&v)[N], Activation kind) {
  constexpr bool exact = std::is_same_v<T, float>;
  if (kind == Activation::gelu_tanh) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = activate<exact>(v[i], Activation::gelu_tanh);
  } else if (kind == Activation::gelu_erf) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = activate<exact>(v[i], Activation::gelu_erf);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = activate<exact>(v[i], Activation::relu_squared);
  }
}

template <class T, int N>
__device__ inline void derive_pack(float (&dx)[N], const float (&dy)[N], const float (&x)[N], Activation kind) {
  constexpr bool exact = std::is_same_v<T, float>;
  if (kind == Activation::gelu_tanh) {
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] = dy[i] * derivative<exact>(x[i], Activation::gelu_tanh);
  } else if (kind == Activation::gelu_erf) {
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] = dy[i] * derivative<exact>(x[i], Activation::gelu_erf);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] = dy[i] * derivative<exact>(x[i], Activation::relu_squared);
  }
}

}  // namespace trireme
