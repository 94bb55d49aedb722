#pragma once
// What a checkpoint holds. everything() lists each array once; save and load walk that list. Progress is the few
// numbers beside the arrays.

#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/train/engine.h"
#include "trireme/train/loss_scaler.h"

namespace trireme {

struct Progress {
  std::int64_t step = 0;     // training steps done
  std::int64_t updates = 0;  // of them not skipped
  std::int64_t samples = 0, tokens = 0;
  LossScaler::State scaler;
};

enum class Contents : std::uint8_t { all, weights };

// The same arrays in the same order on every rank: /param, then /master (when it is kept apart), /adam_m, /adam_v.
std::vector<Stored> everything(Engine& engine, Contents contents);

Attributes to_attributes(const Progress& progress);
Progress progress_from(const Attributes& attributes,
                       const std::string& path);  // throws Error(Exit::data) on absent numbers

}  // namespace trireme
