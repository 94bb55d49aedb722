#pragma once
// Learning rate and batch size: pure functions of how far the run is. Nothing to save, nothing to restore.

#include "trireme/deck/deck.h"

namespace trireme {

// Learning rate of optimizer step `step` (from 1), with W warm-up, D decay steps and A final steps of wsd:
//   step <= W: start + (max - start) step / W;   else with r = (step - W) / (D - W):
//   linear 1 - r, cosine (1 + cos pi r) / 2, constant 1, inverse_sqrt max(min, max sqrt(W / step)), and after D: min.
//   wsd: 1 until D - A, then with q = (step - (D - A)) / A: linear 1 - q, cosine, exponential 2 * 0.5^q - 1,
//   minus_sqrt 1 - sqrt q.
// The factor f gives min + f (max - min).
double learning_rate(const LrDeck& lr, std::int64_t step);

// Sequences of the next step when `samples` were consumed: the ramp grows by ramp_step at equal distances in tokens
// until ramp_tokens have passed.
std::int64_t global_batch(const BatchDeck& batch, std::int64_t sequence, std::int64_t samples);

}  // namespace trireme
