#pragma once
// The optimizer's state of this rank and its update: AdamW over flat ranges of buckets (ZeRO-1). Rank r of the replicas
// holds range r of every bucket; after the update the new weights are gathered.

#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/train/gradients.h"

namespace trireme {

class AdamW {
 public:
  // One per bucket. master is the same memory as the bucket's values when the dtypes agree.
  struct State {
    Range own;  // in the bucket
    Tensor master, m, v;
  };

  AdamW(ParamStore& params, const ProcessGrid& grid, Backend& backend, const PrecisionDeck& precision, Zero zero,
        Arena& persistent);
  void initialise();     // moments zero, masters from the weights
  void share_weights();  // each replica's range of the weights to all of them, as after a step
  bool has_master() const { return separate_master_; }
  // norm_sq_1 (f64): squared norm of all gradients, the same on every rank; not finite: nothing changes. The new
  // weights of other replicas arrive in the background, those that the next forward pass needs first before the others.
  void step(const OptimizerDeck& deck, double lr, double grad_scale, std::int64_t t, std::uint64_t seed,
            Tensor norm_sq_1);

  const std::vector<State>& states() const { return states_; }
  std::size_t bytes() const;

 private:
  void masters_from_weights();
  void gather(std::size_t bucket);

  ParamStore& params_;
  const ProcessGrid& grid_;
  Backend& backend_;
  Zero zero_;
  bool separate_master_ = false;
  std::vector<State> states_;
};

}  // namespace trireme
