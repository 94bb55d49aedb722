#include "trireme/train/lr.h"

#include <algorithm>
#include <cmath>

namespace trireme {

namespace {

constexpr double k_pi = 3.14159265358979323846;

double tail(const std::string& shape, double q) {
  if (shape == "cosine") return 0.5 * (1 + std::cos(k_pi * q));
  if (shape == "exponential") return 2 * std::pow(0.5, q) - 1;
  if (shape == "minus_sqrt") return 1 - std::sqrt(q);
  return 1 - q;
}

// Between 1 (peak) and 0 (minimum) at `step` of the decay.
double decay_factor(const LrDeck& lr, std::int64_t step) {
  const double n = static_cast<double>(step), W = static_cast<double>(lr.warmup), D = static_cast<double>(lr.decay);
  if (lr.shape == "constant") return 1;
  if (step >= lr.decay) return 0;
  if (lr.shape != "wsd") return tail(lr.shape, (n - W) / (D - W));
  const double A = lr.wsd_decay > 0 ? static_cast<double>(lr.wsd_decay) : std::max(1.0, std::floor(0.1 * D));
  return n <= D - A ? 1 : tail(lr.wsd_shape, (n - (D - A)) / A);
}

}  // namespace

double learning_rate(const LrDeck& lr, std::int64_t step) {
  if (lr.warmup > 0 && step <= lr.warmup) {
    return lr.start + (lr.max - lr.start) * static_cast<double>(step) / static_cast<double>(lr.warmup);
  }
  if (lr.shape == "inverse_sqrt") {
    const double W = static_cast<double>(std::max<std::int64_t>(1, lr.warmup));
    return std::max(lr.min, lr.max * std::sqrt(W / static_cast<double>(std::max<std::int64_t>(1, step))));
  }
  return lr.min + decay_factor(lr, step) * (lr.max - lr.min);
}

std::int64_t global_batch(const BatchDeck& batch, std::int64_t sequence, std::int64_t samples) {
  if (batch.ramp_start == 0 || batch.ramp_step == 0 || batch.ramp_start >= batch.global) return batch.global;
  const std::int64_t increments = (batch.global - batch.ramp_start) / batch.ramp_step;
  const double tokens_each = static_cast<double>(batch.ramp_tokens) / static_cast<double>(increments);
  const auto done = static_cast<std::int64_t>(static_cast<double>(samples * sequence) / tokens_each);
  return std::min(batch.global, batch.ramp_start + batch.ramp_step * done);
}

}  // namespace trireme
