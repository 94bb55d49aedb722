#pragma once
// From samples to the micro-batches of this rank: which samples a replica takes, which tokens a context-parallel rank
// takes, what is masked. The data position is the number of samples consumed, on any grid.

#include "trireme/comm/communicator.h"
#include "trireme/comm/mpi.h"
#include "trireme/comm/process_grid.h"
#include "trireme/data/sampler.h"
#include "trireme/deck/deck.h"
#include "trireme/train/engine.h"

namespace trireme {

// Positions in the sequence of the local tokens: chunks rank and 2n-1-rank of 2n, or all for n = 1.
std::vector<std::int32_t> local_positions(std::int64_t sequence, int n, int rank);

class BatchFeed {
 public:
  // source may be null on a plan: then batches hold sizes only. control: host tensors, all ranks of the job.
  BatchFeed(const Deck& deck, const GridPoint& here, const TokenSource* source, Communicator* control);
  // `sequences` samples from number `first` on, in micro-batches: micro-batch m of replica d holds samples
  // first + (m * dp + d) * micro ... Collective over all ranks when masks make the number of targets uncertain.
  HostBatch read(std::int64_t first, std::int64_t sequences) const;
  // Its two halves: what may throw and what may wait for other ranks.
  HostBatch read_tokens(std::int64_t first, std::int64_t sequences) const;
  void count_targets(HostBatch& batch) const;
  std::int64_t samples_per_epoch() const { return sampler_ ? sampler_->samples_per_epoch() : 0; }
  std::int64_t epoch_of(std::int64_t sample) const { return sampler_ ? sampler_->epoch_of(sample) : 0; }

 private:
  void append_documents(HostBatch& batch, const std::vector<std::int32_t>& starts) const;
  void append_sample(HostBatch& batch, std::int64_t sample, std::int64_t number_in_batch) const;

  const Deck& deck_;
  GridPoint here_;
  std::unique_ptr<Sampler> sampler_;
  Communicator* control_;
  std::vector<std::int32_t> positions_;
};

// read() for all ranks of a job: data that some cannot read end it with one message.
HostBatch read_together(const MpiSession& session, const BatchFeed& feed, std::int64_t first, std::int64_t sequences);

}  // namespace trireme
