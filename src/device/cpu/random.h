#pragma once
// Rows of Philox words, and dropout with them. The words are those of philox.h, one element at a time.

#include <cmath>
#include <cstdint>

#include "storage.h"
#include "trireme/base/philox.h"

namespace trireme::cpu {

// words[i] = random_word(key, first + i), n <= k_block
void random_run(const RandomKey& key, std::int64_t first, std::int64_t n, std::uint32_t* words);

// v[i] = kept ? v[i] / (1 - p) : 0, where element `first + i` of the key is kept when its word >= p * 2^32
template <class R>
void drop(R* v, std::int64_t n, const RandomKey& key, std::int64_t first, double p) {
  std::uint32_t words[k_block];
  random_run(key, first, n, words);
  const double limit = std::ceil(p * 4294967296.0);
  const auto bound = static_cast<std::uint32_t>(std::fmin(limit, 4294967295.0));
  const R factor = limit > 4294967295.0 ? R(0) : static_cast<R>(1.0 / (1.0 - p));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) v[i] = words[i] >= bound ? v[i] * factor : R(0);
}

}  // namespace trireme::cpu
