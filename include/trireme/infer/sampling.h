#pragma once
// Which token comes next, given logits and one uniform number. Pure functions: no state, no model.

#include <cstdint>
#include <span>

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: the most probable token
  std::int64_t top_k = 0;  // only the k most probable; 0: all
  double top_p = 1;        // only the most probable that together reach this probability
  std::uint64_t seed = 1;
};

// The token at the point `u` in [0, 1) of the cumulative distribution, most probable tokens first; equal ones by id.
std::int32_t choose(std::span<const double> logits, const Sampling& sampling, double u);

// The uniform number of token `number` of the text that begins with `prompt`: the same on every grid, in every batch.
double uniform_of(const Sampling& sampling, std::span<const std::int32_t> prompt, std::int64_t number);

}  // namespace trireme
