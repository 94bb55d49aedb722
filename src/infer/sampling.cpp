#include "trireme/infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/base/philox.h"

namespace trireme {

std::int32_t choose(std::span<const double> logits, const Sampling& sampling, double u) {
  require(!logits.empty(), "a vocabulary has tokens");
  if (sampling.temperature == 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::size_t n = order.size();
  if (sampling.top_k > 0) n = std::min(n, static_cast<std::size_t>(sampling.top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(), before);
  const double largest = logits[static_cast<std::size_t>(order[0])];
  std::vector<double> weights;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    weights.push_back(std::exp((logits[static_cast<std::size_t>(order[i])] - largest) / sampling.temperature));
    sum += weights.back();
  }
  double kept = 0;
  std::size_t n_kept = 0;
  while (n_kept < n && (n_kept == 0 || kept < sampling.top_p * sum)) kept += weights[n_kept++];
  double point = u * kept;
  for (std::size_t i = 0; i + 1 < n_kept; ++i) {
    if (point < weights[i]) return order[i];
    point -= weights[i];
  }
  return order[n_kept - 1];
}

double uniform_of(const Sampling& sampling, std::span<const std::int32_t> prompt, std::int64_t number) {
  const std::string_view bytes(reinterpret_cast<const char*>(prompt.data()), prompt.size_bytes());
  const RandomKey key{sampling.seed, stream_of(bytes), stream_of("generate")};
  const Philox4 words = random_words(key, static_cast<std::uint64_t>(number));
  const std::uint64_t bits = static_cast<std::uint64_t>(words.x[0]) << 32 | words.x[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace trireme
