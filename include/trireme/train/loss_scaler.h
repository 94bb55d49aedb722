#pragma once
// The dynamic loss scale of fp16 training, Megatron's algorithm: an overflow spends one unit of hysteresis and, when it
// is used up, halves the scale; `window` good steps in a row double it and restore the hysteresis. Good steps alone do
// not restore it.

#include "trireme/deck/deck.h"

namespace trireme {

class LossScaler {
 public:
  explicit LossScaler(const PrecisionDeck& precision);
  double scale() const { return scale_; }
  void update(bool overflow);

  // For the checkpoint.
  struct State {
    double scale = 1;
    std::int64_t good_steps = 0, hysteresis = 0;
  };
  State state() const { return {scale_, good_steps_, hysteresis_}; }
  void restore(const State& state);

 private:
  bool dynamic_;
  double scale_, smallest_;
  std::int64_t window_, full_hysteresis_, good_steps_ = 0, hysteresis_;
};

}  // namespace trireme
