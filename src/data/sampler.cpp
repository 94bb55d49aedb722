#include "trireme/data/sampler.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
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

std::vector<std::int64_t> shares(const std::vector<double>& weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> counts;
  std::vector<std::pair<double, std::size_t>> rests;  // largest first
  std::int64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(total);
    counts.push_back(static_cast<std::int64_t>(exact));
    rests.emplace_back(static_cast<double>(counts.back()) - exact, i);
    given += counts.back();
  }
  std::sort(rests.begin(), rests.end());
  for (std::size_t i = 0; given < total; i = (i + 1) % rests.size(), ++given) ++counts[rests[i].second];
  return counts;
}

namespace {

[[noreturn]] void too_short(const std::string& what, std::int64_t tokens, std::int64_t sequence) {
  throw Error(Exit::data, what + " holds " + std::to_string(tokens) +
                              " tokens, but one sample needs model.sequence + 1 = " + std::to_string(sequence + 1) +
                              "; give more data or a shorter sequence");
}

}  // namespace

Sampler::Sampler(const TokenSource& source, std::int64_t sequence, std::uint64_t seed)
    : source_(source), sequence_(sequence), seed_(seed) {
  std::vector<double> weights;
  for (const Corpus& corpus : source.corpora()) {
    const std::int64_t held = (corpus.tokens.count() - 1) / sequence;
    if (held < 1)
      too_short(corpus.name.empty() ? "the data (" + source.describe() + ")" : corpus.name, corpus.tokens.count(),
                sequence);
    parts_.push_back({corpus, held, 0, 0});
    weights.push_back(corpus.weight);
    n_ += held;
  }
  const std::vector<std::int64_t> counts = shares(weights, n_);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (counts[i] == 0)
      throw Error(Exit::data, "data.weights give " + parts_[i].corpus.name + " none of the " + std::to_string(n_) +
                                  " samples of an epoch; raise its weight or leave it out");
    parts_[i].first = first;
    parts_[i].count = counts[i];
    first += counts[i];
  }
}

Sampler::Place Sampler::place_of(std::int64_t sample) const {
  require(sample >= 0, "samples are numbered from 0");
  const std::int64_t epoch = epoch_of(sample), drawn = shuffled(seed_, epoch, sample % n_, n_);
  const auto behind = std::upper_bound(parts_.begin(), parts_.end(), drawn,
                                       [](std::int64_t i, const Part& part) { return i < part.first; });
  const Part& part = *(behind - 1);
  const auto number = static_cast<std::size_t>(behind - 1 - parts_.begin());
  std::int64_t inside = drawn - part.first;
  if (part.count != part.held) {  // number `all` of all draws from this corpus, shuffled for each pass over it
    const std::int64_t all = epoch * part.count + inside;
    const std::uint64_t own_seed = seed_ + 0x9e3779b97f4a7c15ULL * (number + 1);
    inside = shuffled(own_seed, all / part.held, all % part.held, part.held);
  }
  return {number, part.corpus.tokens.first + inside * sequence_};
}

std::size_t Sampler::corpus_of(std::int64_t sample) const {
  return place_of(sample).part;
}

std::vector<Sampler::Use> Sampler::uses() const {
  double sum = 0;
  for (const Part& part : parts_) sum += part.corpus.weight;
  std::vector<Use> uses;
  for (const Part& part : parts_) uses.push_back({part.corpus.name, part.corpus.weight / sum, part.held, part.count});
  return uses;
}

void Sampler::read(std::int64_t sample, std::span<std::int32_t> tokens) const {
  require(static_cast<std::int64_t>(tokens.size()) == sequence_ + 1, "a sample is sequence + 1 tokens");
  source_.read(place_of(sample).token, tokens);
}

std::vector<std::int32_t> Sampler::document_starts(std::int64_t sample) const {
  const std::int64_t first = place_of(sample).token;
  std::vector<std::int32_t> places{0};
  for (const std::int64_t start : source_.document_starts(first, sequence_)) {
    if (start > first) places.push_back(static_cast<std::int32_t>(start - first));
  }
  return places;
}

std::vector<std::string> describe_passes(const Sampler& sampler, std::int64_t n_samples, const std::string& repeat) {
  const double epochs = static_cast<double>(n_samples) / static_cast<double>(sampler.samples_per_epoch());
  std::vector<std::string> lines, repeated;
  for (const Sampler::Use& use : sampler.uses()) {
    const double passes = use.passes(epochs);
    const std::string who = use.name.empty() ? "the data" : use.name;
    std::string line = format("%.3g passes over ", passes) + who;
    if (!use.name.empty())
      line += format(": %.4g %% of the samples, %lld an epoch of the %lld it holds", 100 * use.weight,
                     static_cast<long long>(use.per_epoch), static_cast<long long>(use.held));
    if (passes > 1) {
      repeated.push_back(line);
      line += " (repeats)";
    }
    lines.push_back(line);
  }
  if (repeat != "refuse" || repeated.empty()) return lines;
  std::string text = "data.repeat = \"refuse\", but a run of " + std::to_string(n_samples) + " samples makes";
  for (const std::string& line : repeated) text += "\n  " + line;
  throw Error(Exit::data, text + "\ngive more data, fewer steps, other data.weights, or data.repeat = \"announce\"");
}

}  // namespace trireme
