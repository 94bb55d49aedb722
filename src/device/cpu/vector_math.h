#pragma once
// exp and the normal distribution without branches or calls, so that loops over them vectorise on any machine.
// Errors: a few units in the last place. NaN stays NaN, infinities give their limits.

#include <bit>
#include <cstdint>

namespace trireme::cpu {

template <class R>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Int = std::int32_t;
  using UInt = std::uint32_t;
  static constexpr int fraction_bits = 23, exponent_bias = 127, degree = 7;
  static constexpr float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  static constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
  static constexpr float lowest = -104.0F, highest = 88.73F;
};
template <>
struct ExpConstants<double> {
  using Int = std::int64_t;
  using UInt = std::uint64_t;
  static constexpr int fraction_bits = 52, exponent_bias = 1023, degree = 13;
  static constexpr double magic = 6755399441055744.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double lowest = -745.2, highest = 709.79;
};

constexpr double inverse_factorial(int n) {
  return n < 2 ? 1.0 : inverse_factorial(n - 1) / n;
}

// The Taylor polynomial of exp from term n on, divided by r^n.
template <class R, int n>
inline R exp_terms(R r) {
  constexpr R coefficient = static_cast<R>(inverse_factorial(n));
  if constexpr (n == ExpConstants<R>::degree) {
    return coefficient;
  } else {
    return exp_terms<R, n + 1>(r) * r + coefficient;
  }
}

// exp(x) = 2^k exp(r), |r| <= ln(2)/2; 2^k in two factors, so that the ends of the range are reached.
template <class R>
inline R vexp(R x) {
  using K = ExpConstants<R>;
  using Int = typename K::Int;
  using UInt = typename K::UInt;
  const R above = x < K::lowest ? K::lowest : x;
  const R clamped = above > K::highest ? K::highest : above;
  const R shifted = clamped * R(1.4426950408889634) + K::magic;
  const R k = shifted - K::magic;
  const R r = (clamped - k * K::ln2_high) - k * K::ln2_low;
  const auto whole = static_cast<Int>(std::bit_cast<UInt>(shifted) - std::bit_cast<UInt>(K::magic));
  const Int half = whole >> 1;
  const auto power = [](Int e) {
    return std::bit_cast<R>((static_cast<UInt>(e) + static_cast<UInt>(K::exponent_bias)) << K::fraction_bits);
  };
  return exp_terms<R, 0>(r) * power(half) * power(static_cast<Int>(static_cast<UInt>(whole) - static_cast<UInt>(half)));
}

// Chebyshev coefficients of exp(z^2) erfc(z) (1 + 2 z) in t = (z - 3) / (z + 3), z >= 0, after Schonfelder, Math. Comp.
// 32 (1978); computed in quadruple precision. The first 13 are enough for float.
inline constexpr double k_erfcx[] = {
    1.17756257419656007e+00,  5.35390453961567640e-03,  -9.37755034228420908e-02, 5.43665255574432224e-02,
    -1.89765967078452079e-02, 4.45342606146271157e-03,  -6.33553171055314685e-04, 1.76617195231715932e-05,
    1.28415328640566712e-05,  -2.00722856590599130e-06, -1.80752279041483712e-07, 7.54982834382509291e-08,
    1.88566852383860296e-09,  -2.69951904979836388e-09, -1.46007911993910508e-11, 1.03616074459694893e-10,
    1.47571597662347301e-12,  -4.27734006439691100e-12, -2.07922492859799006e-13, 1.81345020031769630e-13,
    1.97342557454473895e-14,  -7.28794373759267338e-15, -1.51698786902281158e-15, 2.35141122587814030e-16,
    1.00061116918216674e-16};

// Clenshaw's recurrence from coefficient n down.
template <class R, int n>
inline R erfcx_terms(R t, R b1, R b2) {
  constexpr R coefficient = static_cast<R>(k_erfcx[n]);
  if constexpr (n == 0) {
    return t * b1 - b2 + coefficient;
  } else {
    return erfcx_terms<R, n - 1>(t, R(2) * t * b1 - b2 + coefficient, b1);
  }
}

template <class R>
struct Normal {
  R cdf, density;
};

// Distribution function and density of the standard normal; the tails keep their relative precision.
template <class R>
inline Normal<R> vnormal(R x) {
  constexpr int last = sizeof(R) == sizeof(double) ? 24 : 12;
  const R magnitude = x < R(0) ? -x : x;
  const R bounded = magnitude > R(40) ? R(40) : magnitude;
  const R z = bounded * R(0.70710678118654752);
  const R bell = vexp(R(-0.5) * bounded * bounded);
  const R tail = R(0.5) * bell * erfcx_terms<R, last>((z - R(3)) / (z + R(3)), R(0), R(0)) / (R(1) + R(2) * z);
  return {x > R(0) ? R(1) - tail : tail, bell * R(0.39894228040143268)};
}

template <class R>
inline R vsigmoid(R x) {
  return R(1) / (R(1) + vexp(-x));
}

}  // namespace trireme::cpu
