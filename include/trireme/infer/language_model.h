#pragma once
// A trained model that continues texts: weights without gradients, and the keys and values of the tokens so far. It
// takes token ids and gives logits; it knows neither text nor chance. One rank, or tensor-parallel ranks that all make
// the same calls and get the same logits.

#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/process_grid.h"
#include "trireme/infer/weights.h"
#include "trireme/model/model.h"

namespace trireme {

struct ModelMemory {
  std::int64_t slots = 1;       // texts at a time
  std::int64_t capacity = 0;    // tokens of a text
  std::int64_t pass = 256;      // most tokens of one pass
  std::int64_t logit_rows = 1;  // most rows of logits of one pass, at least slots
};

enum class Cache : std::uint8_t { used, bypassed };  // bypassed: the tokens are a text of their own
enum class LogitRows : std::uint8_t { last, all };   // of each sequence

class LanguageModel {
 public:
  // Throws Error(Exit::usage) when the capacity is beyond a learned table of positions. kind: of the backend.
  LanguageModel(const ModelDeck& deck, DType compute, const ProcessGrid& grid, Backend& backend, DeviceKind kind,
                const ModelMemory& memory);
  ~LanguageModel();

  // control: all ranks, host tensors. Throws Error(Exit::data).
  void load(const Weights& weights, Communicator& control);

  // Passes ids, the same number for each of `slots`, behind what these slots hold. Logits [rows, vocab], row-major.
  std::vector<double> pass(std::span<const std::int64_t> slots, std::span<const std::int32_t> ids, LogitRows rows,
                           Cache cache);
  void forget(std::int64_t slot) { lengths_[static_cast<std::size_t>(slot)] = 0; }
  std::int64_t length(std::int64_t slot) const { return lengths_[static_cast<std::size_t>(slot)]; }
  const ModelMemory& memory() const { return memory_; }
  std::int64_t vocab() const { return deck_.vocab; }
  std::size_t bytes() const;  // of the device's memory

 private:
  struct Sizes {
    std::size_t persistent, scratch, keep;
  };
  LanguageModel(const ModelDeck& deck, DType compute, const ProcessGrid& grid, Backend& backend,
                const ModelMemory& memory, const Sizes& sizes);
  static Sizes plan(const ModelDeck& deck, DType compute, const GridPoint& here, DeviceKind kind,
                    const ModelMemory& memory);
  void take_tables();
  std::vector<double> logits_of(Context& c, const MicroBatch& mb, Tensor x);
  void load_checkpoint_weights(const std::string& path, Communicator& control);
  void load_hugging_face(const std::string& path);

  ModelDeck deck_;
  DType compute_;
  const ProcessGrid& grid_;
  Backend& backend_;
  ModelMemory memory_;
  Model model_;
  Arena persistent_, scratch_;
  std::unique_ptr<ParamStore> params_;
  Stage stage_;
  Stage::Slot slot_;
  KvCache cache_;
  Tensor rope_, ids_, positions_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace trireme
