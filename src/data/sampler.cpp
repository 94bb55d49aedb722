#include "trireme/data/sampler.h"

#include <bit>

#include "trireme/base/check.h"
#include "trireme/base/philox.h"

namespace trireme {

namespace {

constexpr std::uint64_t k_n_rounds =
    8;  // four already pass for a strong pseudo-random permutation (Luby & Rackoff, 1988)

// One pass of the network over 2*half bits: (left, right) -> (right, left ^ F_round(right)). A bijection whatever F is.
std::uint64_t feistel(const RandomKey& key, int half, std::uint64_t x) {
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t left = x >> half, right = x & mask;
  for (std::uint64_t round = 0; round < k_n_rounds; ++round) {
    const std::uint64_t turned = left ^ (random_words(key, round << 32 | right).x[0] & mask);
    left = right;
    right = turned;
  }
  return left << half | right;
}

}  // namespace

std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t i, std::int64_t n) {
  require(n >= 1 && i >= 0 && i < n && n <= std::int64_t{1} << 62, "shuffled: item outside 0..n-1");
  const RandomKey key{seed, stream_of("shuffle"), static_cast<std::uint32_t>(epoch)};
  const int half = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;
  // Walking the cycle until it comes back inside is again a bijection; at most 4 steps on average, as 2^(2 half) < 4 n.
  std::uint64_t x = static_cast<std::uint64_t>(i);
  do {
    x = feistel(key, half, x);
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

Sampler::Sampler(const TokenSource& source, std::int64_t sequence, std::uint64_t seed)
    : source_(source), sequence_(sequence), n_((source.n_tokens() - 1) / sequence), seed_(seed) {
  if (n_ >= 1) return;
  throw Error(Exit::data, "the data holds " + std::to_string(source.n_tokens()) + " tokens (" + source.describe() +
                              "), but one sample needs model.sequence + 1 = " + std::to_string(sequence + 1) +
                              "; give more data or a shorter sequence");
}

std::int64_t Sampler::first_token(std::int64_t sample) const {
  require(sample >= 0, "samples are numbered from 0");
  return shuffled(seed_, epoch_of(sample), sample % n_, n_) * sequence_;
}

void Sampler::read(std::int64_t sample, std::span<std::int32_t> tokens) const {
  require(static_cast<std::int64_t>(tokens.size()) == sequence_ + 1, "a sample is sequence + 1 tokens");
  source_.read(first_token(sample), tokens);
}

std::vector<std::int32_t> Sampler::document_starts(std::int64_t sample) const {
  const std::int64_t first = first_token(sample);
  std::vector<std::int32_t> places{0};
  for (const std::int64_t start : source_.document_starts(first, sequence_)) {
    if (start > first) places.push_back(static_cast<std::int32_t>(start - first));
  }
  return places;
}

}  // namespace trireme
