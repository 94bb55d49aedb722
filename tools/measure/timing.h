#pragma once
// Seconds of an operation on a backend, by marks on its compute stream.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "trireme/device/backend.h"

namespace trireme::measure {

inline double seconds_of(Backend& backend, const std::function<void()>& operation, std::int64_t times) {
  const std::int64_t begin = backend.mark();
  for (std::int64_t i = 0; i < times; ++i) operation();
  const std::int64_t end = backend.mark();
  backend.wait(end);
  return (backend.time_of(end) - backend.time_of(begin)) / static_cast<double>(times);
}

// The first call may load code and choose algorithms; the second says how often to repeat.
inline std::int64_t repetitions(Backend& backend, const std::function<void()>& operation, double seconds) {
  operation();
  const double once = std::max(1e-7, seconds_of(backend, operation, 1));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / once) + 1, 1, 5000);
}

// The median of five stretches that last `seconds` together.
inline double time_alone(Backend& backend, const std::function<void()>& operation, double seconds) {
  constexpr int n = 5;
  const std::int64_t times = repetitions(backend, operation, seconds / n);
  std::array<double, n> stretches;
  for (double& stretch : stretches) stretch = seconds_of(backend, operation, times);
  std::nth_element(stretches.begin(), stretches.begin() + n / 2, stretches.end());
  return stretches[n / 2];
}

}  // namespace trireme::measure
