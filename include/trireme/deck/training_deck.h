#pragma once
// Deck sections [batch], [optimizer] and [lr].

#include <cstdint>
#include <string>

#include "trireme/deck/field.h"

namespace trireme {

struct BatchDeck {
  std::int64_t global = 8, micro = 1, ramp_start = 0, ramp_step = 0, ramp_tokens = 0;
  template <class V>
  void describe(V& v) {
    v.field("global", global, "sequences per optimizer step, over all replicas", size_from(1));
    v.field("micro", micro, "sequences computed at a time on one replica", size_from(1));
    v.field("ramp_start", ramp_start, "batch ramp: sequences per step at the start; 0: no ramp", size_from(0));
    v.field("ramp_step", ramp_step, "batch ramp: the batch grows by this many sequences at a time", size_from(0));
    v.field("ramp_tokens", ramp_tokens, "batch ramp: tokens after which batch.global is reached",
            at_least<std::int64_t>(0));
  }
};

struct OptimizerDeck {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1.0, spike_sigma = 0;
  std::int64_t spike_window = 128, max_skips = 0, max_rollbacks = 2;
  template <class V>
  void describe(V& v) {
    v.field("beta1", beta1, "decay of the first moment", between(0.0, 0.999999));
    v.field("beta2", beta2, "decay of the second moment", between(0.0, 0.999999));
    v.field("eps", eps, "added to the root of the second moment", above(0));
    v.field("weight_decay", weight_decay, "decoupled decay of tensors with two dimensions; vectors are not decayed",
            at_least(0.0));
    v.field("clip", clip, "largest global gradient norm; 0: no clipping", at_least(0.0));
    v.field("spike_sigma", spike_sigma,
            "a loss or gradient norm so many standard deviations above the last good steps is trouble; 0: only what is "
            "not finite",
            at_least(0.0));
    v.field("spike_window", spike_window, "good steps that spike_sigma compares with", between<std::int64_t>(4, 1000));
    v.field("max_skips", max_skips,
            "steps in a row to skip on trouble; the next one goes back to the last checkpoint and jumps over their "
            "samples; "
            "0: stop with exit code 5 at once",
            at_least<std::int64_t>(0));
    v.field("max_rollbacks", max_rollbacks, "times to go back to one checkpoint before stopping with exit code 5",
            at_least<std::int64_t>(0));
  }
};

struct LrDeck {
  double max = 3e-4, min = 3e-5, start = 0;
  std::int64_t warmup = 0, decay = 0, wsd_decay = 0;
  std::string shape = "cosine", wsd_shape = "linear";
  template <class V>
  void describe(V& v) {
    using I = std::int64_t;
    v.field("max", max, "learning rate after the warm-up", above(0));
    v.field("min", min, "learning rate at the end of the decay", at_least(0.0));
    v.field("start", start, "learning rate before the first warm-up step", at_least(0.0));
    v.field("warmup", warmup, "steps of linear warm-up", at_least<I>(0));
    v.field("decay", decay, "step at which lr.min is reached; 0: run.steps", at_least<I>(0));
    v.field("shape", shape, "curve after the warm-up", one_of({"cosine", "linear", "constant", "wsd", "inverse_sqrt"}));
    v.field("wsd_decay", wsd_decay, "wsd: steps of the final decay; 0: a tenth of the decay steps", at_least<I>(0));
    v.field("wsd_shape", wsd_shape, "wsd: curve of the final decay",
            one_of({"linear", "cosine", "exponential", "minus_sqrt"}));
  }
};

}  // namespace trireme
