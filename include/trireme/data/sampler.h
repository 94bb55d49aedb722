#pragma once
// Which tokens sample number j holds. A permutation evaluated at a point: no index files, no start-up cost, the data
// position of a run is one integer for any number of ranks.

#include <cstdint>
#include <span>

#include "trireme/data/token_source.h"

namespace trireme {

// Position of item i in a pseudo-random permutation of 0..n-1 (balanced Feistel network on the smallest even number of
// bits that holds n, keyed by Philox, walked until inside). Bijective for every n >= 1.
std::int64_t shuffled(std::uint64_t seed, std::int64_t epoch, std::int64_t i, std::int64_t n);

// `total` items in proportion to the weights, rounded so that they add up: each within one of its exact share.
std::vector<std::int64_t> shares(const std::vector<double>& weights, std::int64_t total);

// An epoch is as many samples as all corpora hold, and of each corpus exactly its share by weight. A corpus is gone
// through in an order of its own, all of it before anything again, over the ends of epochs. One corpus, or shares that
// are what the corpora hold, is plain shuffling.
class Sampler {
 public:
  Sampler(const TokenSource& source, std::int64_t sequence, std::uint64_t seed);
  std::int64_t samples_per_epoch() const { return n_; }
  std::int64_t epoch_of(std::int64_t sample) const { return sample / n_; }
  // tokens: sequence + 1 of them; inputs are [0, sequence), targets [1, sequence].
  void read(std::int64_t sample, std::span<std::int32_t> tokens) const;
  // Where documents begin among its inputs: ascending places in [0, sequence), the first of them 0 (what stands there
  // is in general the middle of a document). With `sequence` behind them these are the cumulative lengths.
  std::vector<std::int32_t> document_starts(std::int64_t sample) const;

  struct Use {
    std::string name;
    double weight;                 // of all, adding up to 1
    std::int64_t held, per_epoch;  // samples in the corpus, and drawn from it in an epoch: exact
    double passes(double epochs) const { return epochs * static_cast<double>(per_epoch) / static_cast<double>(held); }
  };
  std::vector<Use> uses() const;
  std::size_t corpus_of(std::int64_t sample) const;  // index in uses()

 private:
  struct Part {
    Corpus corpus;
    std::int64_t held, first, count;  // samples: in it, before it in an epoch, of it in an epoch
  };
  struct Place {
    std::size_t part;
    std::int64_t token;
  };
  Place place_of(std::int64_t sample) const;

  const TokenSource& source_;
  std::int64_t sequence_, n_ = 0;
  std::uint64_t seed_;
  std::vector<Part> parts_;
};

// How often a run of n_samples passes over each corpus, for people. Throws Error(Exit::data) where a corpus would be
// repeated and `repeat` (data.repeat) is "refuse".
std::vector<std::string> describe_passes(const Sampler& sampler, std::int64_t n_samples, const std::string& repeat);

}  // namespace trireme
