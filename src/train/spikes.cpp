#include "trireme/train/spikes.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr double k_least_spread = 1e-3;  // of the mean: a flat curve has no spikes of a thousandth

// Standard deviations of x above the mean.
double height(const std::vector<double>& values, double x) {
  double mean = 0, square = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) square += (v - mean) * (v - mean) / static_cast<double>(values.size());
  return (x - mean) / std::max(std::sqrt(square), k_least_spread * std::abs(mean));
}

void keep(std::vector<double>& values, double x, std::size_t window) {
  values.push_back(x);
  if (values.size() > window) values.erase(values.begin());
}

}  // namespace

std::string SpikeDetector::judge(double loss, double grad_norm) const {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    return format("loss %g, gradient norm %g: not finite", loss, grad_norm);
  }
  if (sigma_ <= 0 || state_.losses.size() < std::max<std::size_t>(window_ / 2, 2)) return "";
  const double loss_height = height(state_.losses, loss), norm_height = height(state_.norms, grad_norm);
  if (loss_height > sigma_) return format("loss %g: a spike of %.1f sigma (optimizer.spike_sigma)", loss, loss_height);
  if (norm_height <= sigma_) return "";
  return format("gradient norm %g: a spike of %.1f sigma (optimizer.spike_sigma)", grad_norm, norm_height);
}

void SpikeDetector::accept(double loss, double grad_norm) {
  keep(state_.losses, loss, window_);
  keep(state_.norms, grad_norm, window_);
}

}  // namespace trireme
