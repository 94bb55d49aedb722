#pragma once
// Gradients by differences, in f64: the check of every backward pass.

#include <cmath>

#include "bench.h"

namespace trireme {

// d f / d x for every element of x by the central difference of fourth order; f reads x and returns a number.
template <class F>
Numbers finite_difference(Bench& bench, Tensor x, const F& f) {
  const Numbers start = bench.read(x);
  Numbers gradient(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto at = [&](double shift) {
      Numbers moved = start;
      moved[i] += shift;
      bench.write(x, moved);
      return f();
    };
    const double h = 1e-3 * std::max(1.0, std::abs(start[i]));
    gradient[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }
  bench.write(x, start);
  return gradient;
}

// sum of weight * y: turns an output into the number whose gradient with respect to y is `weight`.
inline double weighted_sum(Bench& bench, Tensor y, Tensor weight) {
  const Numbers a = bench.read(y), w = bench.read(weight);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * w[i];
  return sum;
}

inline constexpr double k_gradient_tolerance = 1e-9;

}  // namespace trireme
