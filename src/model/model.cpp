#include "trireme/model/model.h"

#include <cmath>

#include "trireme/base/check.h"
#include "trireme/model/tensor_parallel.h"

namespace trireme {

namespace {

std::vector<Block> make_blocks(ParamTable& table, const ModelDeck& deck) {
  std::vector<Block> blocks;
  for (int layer = 0; layer < deck.layers; ++layer) blocks.emplace_back(table, deck, layer);
  return blocks;
}

}  // namespace

Model::Model(const ModelDeck& deck)
    : deck_(deck),
      embedding_(table_, deck_),
      blocks_(make_blocks(table_, deck_)),
      head_(table_, deck_, deck.tie_embeddings ? embedding_.token() : -1) {}

std::int64_t Model::n_flop_params() const {
  std::int64_t n = 0;
  for (ParamId id = 0; id < table_.size(); ++id) {
    const ParamSpec& spec = table_[id];
    if (spec.layer == k_first_layer) continue;
    n += id == head_.weight() ? deck_.vocab * deck_.hidden : spec.shape.count();
  }
  return n;
}

std::int64_t rope_pairs(const ModelDeck& model) {
  return rotated_channels(model) / 2;
}

std::vector<double> rope_angles(const ModelDeck& model) {
  constexpr double two_pi = 6.283185307179586;
  std::vector<double> angles;
  const std::int64_t n = rope_pairs(model);
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = std::pow(model.rope_theta, -static_cast<double>(i) / static_cast<double>(n));
    const double slow = angle / model.rope_factor;
    if (model.rope_scaling == "none") angles.push_back(angle);
    if (model.rope_scaling == "linear") angles.push_back(slow);
    if (model.rope_scaling != "llama3") continue;
    const double turns =
        static_cast<double>(model.rope_original_sequence) * angle / two_pi;  // over the original sequence
    const double smooth = (turns - model.rope_low_freq) / (model.rope_high_freq - model.rope_low_freq);
    const double blend = std::min(1.0, std::max(0.0, smooth));
    angles.push_back((1 - blend) * slow + blend * angle);
  }
  return angles;
}

std::vector<double> rope_table(const ModelDeck& model) {
  const std::vector<double> angles = rope_angles(model);
  std::vector<double> table;
  table.reserve(static_cast<std::size_t>(model.sequence) * angles.size() * 2);
  for (std::int64_t position = 0; position < model.sequence; ++position) {
    for (const double angle : angles) {
      table.push_back(std::cos(static_cast<double>(position) * angle));
      table.push_back(std::sin(static_cast<double>(position) * angle));
    }
  }
  return table;
}

Stage::Stage(const Model& model, Range layers, bool first, bool last, Recompute recompute)
    : model_(model), layers_(layers), first_(first), last_(last), recompute_(recompute) {}

Tensor Stage::forward(Context& c, const MicroBatch& mb, Tensor x_in, Slot& slot) const {
  slot.keep.rewind(0);
  slot.saved.assign(static_cast<std::size_t>(layers_.count()), Block::Saved{});
  Tensor x = x_in;
  if (first_) {
    x = slot.keep.take(c.compute, {n_own_tokens(c, mb.ids_T.rows()), model_.deck().hidden});
    model_.embedding().forward(c, mb, x);
  }
  for (std::int64_t i = 0; i < layers_.count(); ++i) {
    const Tensor y = slot.keep.take(c.compute, x.shape);
    model_.block(layers_.first + i)
        .forward(c, mb, y, x, slot.keep, slot.saved[static_cast<std::size_t>(i)], recompute_);
    x = y;
  }
  slot.out = x;
  return x;
}

void Stage::loss(Context& c, const MicroBatch& mb, const Slot& slot, Tensor loss_1) const {
  require(last_, "only the last chunk has a loss");
  model_.head().loss(c, mb, slot.out, loss_1);
}

void Stage::backward(Context& c, const MicroBatch& mb, Tensor dy, Slot& slot, Tensor loss_1, double gradient_scale,
                     const std::function<void(int)>& done) const {
  if (last_) model_.head().loss_backward(c, mb, dy, slot.out, loss_1, gradient_scale);
  if (last_) done(k_last_layer);
  for (std::int64_t i = layers_.count() - 1; i >= 0; --i) {
    model_.block(layers_.first + i).backward(c, mb, dy, slot.saved[static_cast<std::size_t>(i)], recompute_);
    done(static_cast<int>(layers_.first + i));
  }
  if (first_) model_.embedding().backward(c, mb, dy);
  if (first_) done(k_first_layer);
}

}  // namespace trireme
