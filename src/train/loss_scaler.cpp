#include "trireme/train/loss_scaler.h"

#include <algorithm>

namespace trireme {

LossScaler::LossScaler(const PrecisionDeck& precision)
    : dynamic_(precision.compute == "fp16"),
      scale_(dynamic_ ? precision.loss_scale : 1),
      smallest_(precision.loss_scale_min),
      window_(precision.loss_scale_window),
      full_hysteresis_(precision.loss_scale_hysteresis),
      hysteresis_(full_hysteresis_) {}

void LossScaler::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    good_steps_ = 0;
    if (--hysteresis_ <= 0) scale_ = std::max(scale_ * 0.5, smallest_);
    return;
  }
  if (++good_steps_ < window_) return;
  good_steps_ = 0;
  hysteresis_ = full_hysteresis_;
  scale_ *= 2;
}

void LossScaler::restore(const State& state) {
  if (!dynamic_) return;
  scale_ = state.scale;
  good_steps_ = state.good_steps;
  hysteresis_ = state.hysteresis;
}

}  // namespace trireme
