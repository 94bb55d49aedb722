#include "random.h"

namespace trireme::cpu {

void random_run(const RandomKey& key, std::int64_t first, std::int64_t n, std::uint32_t* words) {
  const auto start = static_cast<std::uint64_t>(first);
  const std::uint64_t group = start / 4, skip = start % 4;
  const auto groups = static_cast<std::int64_t>((skip + static_cast<std::uint64_t>(n) + 3) / 4);
  std::uint32_t drawn[4][k_block / 4 + 2];
#pragma omp simd
  for (std::int64_t g = 0; g < groups; ++g) {
    const Philox4 w = random_words(key, group + static_cast<std::uint64_t>(g));
    drawn[0][g] = w.x[0];
    drawn[1][g] = w.x[1];
    drawn[2][g] = w.x[2];
    drawn[3][g] = w.x[3];
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t at = skip + static_cast<std::uint64_t>(i);
    words[i] = drawn[at % 4][at / 4];
  }
}

}  // namespace trireme::cpu
