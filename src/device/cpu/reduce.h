#pragma once
// Sums and maxima of short runs in a fixed number of lanes: the order of additions, and so the bits, are the same
// whatever the vector length of the machine. The lanes are arrays because g++ 12 loses "omp simd reduction" when it
// inlines.

#include <cstdint>
#include <limits>

namespace trireme::cpu {

inline constexpr std::int64_t k_lanes = 32;

// sum of f(i) over i < n, kept in S
template <class S, class F>
inline S lane_sum(std::int64_t n, const F& f) {
  S part[k_lanes] = {};
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
#pragma omp simd
    for (std::int64_t j = 0; j < k_lanes; ++j) part[j] += f(i + j);
  }
  for (std::int64_t j = 0; i + j < n; ++j) part[j] += f(i + j);
  for (std::int64_t width = k_lanes / 2; width > 0; width /= 2) {
    for (std::int64_t j = 0; j < width; ++j) part[j] += part[j + width];
  }
  return part[0];
}

// Largest of n elements, NaN passed over; -infinity for none.
template <class R>
inline R lane_max(const R* x, std::int64_t n) {
  R part[k_lanes];
  for (R& lane : part) lane = -std::numeric_limits<R>::infinity();
  std::int64_t i = 0;
  for (; i + k_lanes <= n; i += k_lanes) {
#pragma omp simd
    for (std::int64_t j = 0; j < k_lanes; ++j) part[j] = part[j] < x[i + j] ? x[i + j] : part[j];
  }
  for (std::int64_t j = 0; i + j < n; ++j) part[j] = part[j] < x[i + j] ? x[i + j] : part[j];
  for (std::int64_t width = k_lanes / 2; width > 0; width /= 2) {
    for (std::int64_t j = 0; j < width; ++j) part[j] = part[j] < part[j + width] ? part[j + width] : part[j];
  }
  return part[0];
}

}  // namespace trireme::cpu
