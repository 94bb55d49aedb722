#include "random.h"

#include <algorithm>

namespace trireme::cpu {

namespace {

constexpr std::int64_t k_groups = k_block / 4 + 2;  // a run may start and end inside a group

}  // namespace

void random_run(const RandomKey& key, std::int64_t first, std::int64_t n, std::uint32_t* words) {
  const auto start = static_cast<std::uint64_t>(first);
  const std::uint64_t group = start / 4, skip = start % 4;
  const auto groups = static_cast<std::int64_t>((skip + static_cast<std::uint64_t>(n) + 3) / 4);
  std::uint32_t drawn[4][k_groups], in_order[4 * k_groups];
#pragma omp simd
  for (std::int64_t g = 0; g < groups; ++g) {
    const Philox4 w = random_words(key, group + static_cast<std::uint64_t>(g));
    drawn[0][g] = w.x[0];
    drawn[1][g] = w.x[1];
    drawn[2][g] = w.x[2];
    drawn[3][g] = w.x[3];
  }
#pragma omp simd
  for (std::int64_t g = 0; g < groups; ++g) {
    in_order[4 * g] = drawn[0][g];
    in_order[4 * g + 1] = drawn[1][g];
    in_order[4 * g + 2] = drawn[2][g];
    in_order[4 * g + 3] = drawn[3][g];
  }
  std::copy(in_order + skip, in_order + skip + n, words);
}

}  // namespace trireme::cpu
