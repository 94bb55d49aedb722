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

class Sampler {
 public:
  Sampler(const TokenSource& source, std::int64_t sequence, std::uint64_t seed);
  std::int64_t samples_per_epoch() const {
    return n_;
  }  // floor((tokens - 1) / sequence), at least 1 or Error(Exit::data)
  std::int64_t epoch_of(std::int64_t sample) const { return sample / n_; }
  // tokens: sequence + 1 of them; inputs are [0, sequence), targets [1, sequence].
  void read(std::int64_t sample, std::span<std::int32_t> tokens) const;
  // Where documents begin among its inputs: ascending places in [0, sequence), the first of them 0 (what stands there
  // is in general the middle of a document). With `sequence` behind them these are the cumulative lengths.
  std::vector<std::int32_t> document_starts(std::int64_t sample) const;

 private:
  std::int64_t first_token(std::int64_t sample) const;

  const TokenSource& source_;
  std::int64_t sequence_, n_;
  std::uint64_t seed_;
};

}  // namespace trireme
