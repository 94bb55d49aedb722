#pragma once
// What a checkpoint holds. everything() lists each array once; save and load walk that list. Progress is the few
// numbers beside the arrays.

#include <optional>
#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/train/engine.h"
#include "trireme/train/loss_scaler.h"
#include "trireme/train/spikes.h"

namespace trireme {

struct Progress {
  std::int64_t step = 0;     // training steps done
  std::int64_t updates = 0;  // of them not skipped
  std::int64_t samples = 0, tokens = 0;
  LossScaler::State scaler;
  SpikeDetector::State recent;    // numbers of the last good steps
  std::int64_t skips_in_row = 0;  // because of trouble
  std::string jumps;              // samples left out: "step 120: 960 to 991; ..."
};

enum class Contents : std::uint8_t { all, weights };

// The same arrays in the same order on every rank: /param, then /master (when it is kept apart), /adam_m, /adam_v. Each
// replica writes its share of every one.
std::vector<Stored> everything(Engine& engine, Contents contents);

// The same with the sources of a file whose masters are of this dtype, or whose /param are the masters (nothing). An
// fp32 master becomes a remainder and the other way round, fp32 weights come from masters, masters from fp32 weights.
// Contents::weights: all but the moments, masters included: training goes on from the weights at their full precision.
std::vector<Stored> to_load(Engine& engine, Contents contents, std::optional<DType> masters_of_file);
// After loading such a list: weights that were rounded anew are given to the replicas that do not hold their masters.
void settle_loaded(Engine& engine, std::optional<DType> masters_of_file);

SaveOptions options_from(const CheckpointDeck& deck);

Attributes to_attributes(const Progress& progress);
Progress progress_from(const Attributes& attributes,
                       const std::string& path);  // throws Error(Exit::data) on absent numbers

}  // namespace trireme
