#include "trireme/train/batch_feed.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/train/start_up.h"

namespace trireme {

std::vector<std::int32_t> local_positions(std::int64_t sequence, int n, int rank) {
  std::vector<std::int32_t> positions;
  const std::int64_t chunk = n == 1 ? sequence : div_exact(sequence, 2 * n);
  const auto add = [&](std::int64_t index) {
    for (std::int64_t i = 0; i < chunk; ++i) positions.push_back(static_cast<std::int32_t>(index * chunk + i));
  };
  add(rank);
  if (n > 1) add(2 * n - 1 - rank);
  return positions;
}

BatchFeed::BatchFeed(const Deck& deck, const GridPoint& here, const TokenSource* source, Communicator* control)
    : deck_(deck),
      here_(here),
      control_(control),
      positions_(local_positions(deck.model.sequence, here.n(Axis::cp), here.at(Axis::cp))) {
  if (source != nullptr) {
    sampler_ = std::make_unique<Sampler>(*source, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  }
}

HostBatch BatchFeed::read(std::int64_t first, std::int64_t sequences) const {
  HostBatch batch = read_tokens(first, sequences);
  count_targets(batch);
  return batch;
}

HostBatch BatchFeed::read_tokens(std::int64_t first, std::int64_t sequences) const {
  const std::int64_t dp = here_.n(Axis::dp), micro = deck_.batch.micro;
  HostBatch batch;
  batch.n_micro = static_cast<int>(div_exact(sequences, dp * micro));
  for (std::int64_t b = 0; b < micro && !deck_.data.reset_positions; ++b)
    batch.positions.insert(batch.positions.end(), positions_.begin(), positions_.end());
  for (std::int64_t m = 0; m < batch.n_micro; ++m) {
    for (std::int64_t b = 0; b < micro; ++b) {
      const std::int64_t number = (m * dp + here_.at(Axis::dp)) * micro + b;
      append_sample(batch, first + number, number);
    }
  }
  return batch;
}

// starts: ascending places where documents begin, the first is 0. Every stage needs them: every block attends.
void BatchFeed::append_documents(HostBatch& batch, const std::vector<std::int32_t>& starts) const {
  for (const std::int32_t position : positions_) {
    const std::int32_t start = *(std::upper_bound(starts.begin(), starts.end(), position) - 1);
    if (deck_.data.mask_documents) batch.doc_starts.push_back(start);
    if (deck_.data.reset_positions) batch.positions.push_back(position - start);
  }
}

void BatchFeed::append_sample(HostBatch& batch, std::int64_t sample, std::int64_t number) const {
  for (const std::int32_t position : positions_) batch.rows.push_back(number * deck_.model.sequence + position);
  if (deck_.data.mask_documents || deck_.data.reset_positions) {
    append_documents(batch, sampler_ ? sampler_->document_starts(sample) : std::vector<std::int32_t>{0});
  }
  const bool needs_ids = here_.at(Axis::pp) == 0, needs_targets = here_.at(Axis::pp) == here_.n(Axis::pp) - 1;
  if (!sampler_ || (!needs_ids && !needs_targets)) return;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(deck_.model.sequence) + 1);
  sampler_->read(sample, tokens);
  for (const std::int32_t position : positions_) {
    const auto p = static_cast<std::size_t>(position);
    const bool masked = deck_.data.mask_eod && tokens[p] == deck_.data.eod;
    if (needs_ids) batch.ids.push_back(tokens[p]);
    if (needs_targets) batch.targets.push_back(masked ? -1 : tokens[p + 1]);
  }
}

// Without masks the count is known; with them the ranks that hold targets add theirs up.
void BatchFeed::count_targets(HostBatch& batch) const {
  batch.n_targets = batch.n_micro * here_.n(Axis::dp) * deck_.batch.micro * deck_.model.sequence;
  if (!deck_.data.mask_eod || control_ == nullptr) return;
  std::int64_t count = 0;
  if (here_.at(Axis::tp) == 0) {
    count = std::count_if(batch.targets.begin(), batch.targets.end(), [](std::int32_t target) { return target >= 0; });
  }
  control_->all_reduce(Tensor(reinterpret_cast<std::byte*>(&count), DType::i64, {1}), Reduce::sum);
  batch.n_targets = count;
}

HostBatch read_together(const MpiSession& session, const BatchFeed& feed, std::int64_t first, std::int64_t sequences) {
  HostBatch batch;
  together(session, [&] { batch = feed.read_tokens(first, sequences); });
  feed.count_targets(batch);
  return batch;
}

}  // namespace trireme
