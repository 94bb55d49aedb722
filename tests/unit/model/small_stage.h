#pragma once
// A whole small model on one rank in f64, as one stage: loss and gradients of two micro-batches, and its weights for
// everyone to turn.

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "trireme/model/model.h"

namespace trireme {

class SmallStage {
 public:
  SmallStage(const ModelDeck& deck, double dropout, Recompute recompute)
      : model_(deck),
        grid_(make_self_communicator(*backend_), {1, 1, 1, 1}),
        persistent_(*backend_, "persistent", std::size_t{1} << 23),
        scratch_(*backend_, "scratch", std::size_t{1} << 23),
        store_(model_.table(), grid_.here(), make_partition(static_cast<int>(deck.layers), 1, 1, {}), options(),
               persistent_),
        stage_(model_, {0, deck.layers}, true, true, recompute),
        slot_{Arena(*backend_, "saved", std::size_t{1} << 23), {}, {}},
        context_{*backend_, grid_, store_,  scratch_,      DType::f64, true,
                 17,        3,     dropout, Into::replace, Tensor{},   nullptr} {
    store_.initialise(*backend_, 17);
    if (deck.position == "rope") take_rope_table();
    loss_ = persistent_.take(DType::f64, {1});
    for (int i = 0; i < 2; ++i) batches_.push_back(random_batch(i));
    shake_vectors();
  }

  // Sum of the losses of both micro-batches, with the z-loss that the gradient knows.
  double objective() {
    double z_loss = 0;
    backend_->fill(loss_, 0);
    for (const MicroBatch& mb : batches_) {
      const Tensor x = stage_.forward(context_, mb, Tensor{}, slot_);
      stage_.loss(context_, mb, slot_, loss_);
      z_loss += model_.deck().z_loss > 0 ? squares_of_lse(mb, x) : 0;
    }
    return loss_.ptr<double>()[0] + model_.deck().z_loss * z_loss;
  }

  // One sequence of any length up to the deck's, for work on batches of one's own.
  struct Sequence {
    std::vector<std::int32_t> ids, targets, positions, doc_starts;  // doc_starts may be empty
  };
  void set_batches(const std::vector<Sequence>& sequences) {
    batches_.clear();
    for (const Sequence& s : sequences) {
      const auto T = std::ssize(s.ids);
      const auto held = [&](const std::vector<std::int32_t>& values) {
        const Tensor x = persistent_.take(DType::i32, {T});
        backend_->to_device(x, values.data());
        return x;
      };
      MicroBatch mb{1, held(s.ids), held(s.targets), held(s.positions), persistent_.take(DType::i64, {T}), Tensor{}};
      backend_->fill(mb.row_T, 0);
      if (!s.doc_starts.empty()) mb.doc_start_T = held(s.doc_starts);
      batches_.push_back(mb);
    }
  }

  // Gradients of scale * objective(); returns the sum of the losses.
  double differentiate(double scale) {
    backend_->fill(loss_, 0);
    for (const Bucket& bucket : store_.buckets()) backend_->fill(bucket.grad, bucket.accumulates ? 0 : 1e30);
    context_.into = Into::replace;
    for (const MicroBatch& mb : batches_) {
      const ArenaScope scope(scratch_);
      const Tensor dy = scratch_.take(DType::f64, {mb.ids_T.rows(), model_.deck().hidden});
      stage_.forward(context_, mb, Tensor{}, slot_);
      stage_.backward(context_, mb, dy, slot_, loss_, scale, [this](int layer) { passed_.push_back(layer); });
      context_.into = Into::add;
    }
    return loss_.ptr<double>()[0];
  }

  const Model& model() const { return model_; }
  ParamStore& store() { return store_; }
  const std::vector<int>& passed() const { return passed_; }

 private:
  static ParamStoreOptions options() { return {DType::f64, DType::f64, 1000, true}; }
  std::int64_t n_tokens() const { return 2 * model_.deck().sequence; }

  void take_rope_table() {
    const std::vector<double> table = rope_table(model_.deck());
    context_.rope_table = persistent_.take(DType::f64, {model_.deck().sequence, rope_pairs(model_.deck()), 2});
    backend_->to_device(context_.rope_table, table.data());
  }

  MicroBatch random_batch(int number) {
    const std::int64_t T = n_tokens();
    MicroBatch mb{2,
                  persistent_.take(DType::i32, {T}),
                  persistent_.take(DType::i32, {T}),
                  persistent_.take(DType::i32, {T}),
                  persistent_.take(DType::i64, {T}),
                  Tensor{}};
    std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(model_.deck().vocab) - 1);
    for (std::int64_t t = 0; t < T; ++t) {
      mb.ids_T.ptr<std::int32_t>()[t] = token(random_);
      mb.target_T.ptr<std::int32_t>()[t] = t % 5 == 3 ? -1 : token(random_);
      mb.position_T.ptr<std::int32_t>()[t] = static_cast<std::int32_t>(t % model_.deck().sequence);
      mb.row_T.ptr<std::int64_t>()[t] = number * T + t;
    }
    return mb;
  }

  // Gains away from one and biases away from zero: a gradient that forgets a factor shows.
  void shake_vectors() {
    std::normal_distribution<double> noise(0, 0.3);
    for (ParamId id = 0; id < store_.table().size(); ++id) {
      const Tensor value = store_.at(id).value;
      for (std::int64_t i = 0; value.shape.rank == 1 && i < value.count(); ++i)
        value.ptr<double>()[i] += noise(random_);
    }
  }

  double squares_of_lse(const MicroBatch& mb, Tensor x) {
    const ArenaScope scope(scratch_);
    const Tensor logits = scratch_.take(DType::f64, {n_tokens(), padded_vocab(model_.deck())});
    model_.head().logits(context_, mb, logits, x);
    double sum = 0;
    for (std::int64_t t = 0; t < n_tokens(); ++t) {
      if (mb.target_T.ptr<std::int32_t>()[t] < 0) continue;
      double exponentials = 0;
      for (std::int64_t v = 0; v < model_.deck().vocab; ++v)
        exponentials += std::exp(logits.ptr<double>()[t * logits.pitch + v]);
      sum += std::log(exponentials) * std::log(exponentials);
    }
    return sum;
  }

  Model model_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  ProcessGrid grid_;
  Arena persistent_, scratch_;
  ParamStore store_;
  Stage stage_;
  Stage::Slot slot_;
  Context context_;
  Tensor loss_;
  std::vector<MicroBatch> batches_;
  std::vector<int> passed_;
  std::mt19937 random_{5};
};

}  // namespace trireme
