#pragma once
// The whole model as every rank describes it (table, layers), and what one rank computes of it for one chunk of layers.

#include <functional>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/model/block.h"
#include "trireme/model/embedding.h"
#include "trireme/model/head.h"

namespace trireme {

class Model {
 public:
  explicit Model(const ModelDeck& deck);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelDeck& deck() const { return deck_; }
  const ParamTable& table() const { return table_; }
  const Embedding& embedding() const { return embedding_; }
  const Block& block(std::int64_t layer) const { return blocks_[static_cast<std::size_t>(layer)]; }
  const Head& head() const { return head_; }

  // Parameters of the matrix products: all but the input embedding and positions; the LM head counts (design, section
  // 5).
  std::int64_t n_flop_params() const;

 private:
  ModelDeck deck_;
  ParamTable table_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  Head head_;
};

// cos and sin of the rotary angles, [positions, R/2, 2] row-major, with the deck's scaling (Llama 3 report,
// section 3.2, as in the Hugging Face configuration key rope_type = "llama3").
std::int64_t rope_pairs(const ModelDeck& model);          // R/2: pairs of channels of a head that are rotated
std::vector<double> rope_angles(const ModelDeck& model);  // inverse frequencies, R/2 of them
std::vector<double> rope_table(const ModelDeck& model);

// What this rank computes for one chunk: embedding if it is the first, its blocks, head if it is the last.
class Stage {
 public:
  // One in-flight micro-batch: its memory and what its blocks left there.
  struct Slot {
    Arena keep;
    std::vector<Block::Saved> saved;
    Tensor out;  // the chunk's output, in keep
  };

  Stage(const Model& model, Range layers, bool first, bool last, Recompute recompute);
  bool first() const { return first_; }
  bool last() const { return last_; }
  Range layers() const { return layers_; }

  // x_in: from the stage before (absent on the first). Returns the output, which lives in the slot until it is used
  // again.
  Tensor forward(Context& c, const MicroBatch& mb, Tensor x_in, Slot& slot) const;
  // Only on the last chunk, after forward: adds to loss_1.
  void loss(Context& c, const MicroBatch& mb, const Slot& slot, Tensor loss_1) const;
  // dy: in: gradient of the output (on the last chunk it is computed here, from the loss), out: gradient of x_in.
  // done(layer): gradients of this layer are complete for this micro-batch (blocks in falling order, then
  // k_first_layer).
  void backward(Context& c, const MicroBatch& mb, Tensor dy, Slot& slot, Tensor loss_1, double gradient_scale,
                const std::function<void(int)>& done) const;

 private:
  const Model& model_;
  Range layers_;
  bool first_, last_;
  Recompute recompute_;
};

}  // namespace trireme
