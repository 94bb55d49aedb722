// What the trainer does about numbers that go wrong: looks before it updates, computes a suspect step again, names
// where it began, skips, goes back to the last checkpoint, and compares replicas.

#include <algorithm>
#include <cmath>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/train/offender.h"
#include "trireme/train/trainer.h"

namespace trireme {

// A step that looks at its numbers before it changes a weight. A suspect one is computed again from the same weights:
// what comes out right the second time was no mathematics.
Trainer::Outstanding Trainer::careful_step(const HostBatch& batch, const UpdateSettings& settings) {
  const double n = static_cast<double>(std::max<std::int64_t>(1, batch.n_targets));
  const bool fp16 = deck_.precision.compute == "fp16";
  const auto compute = [&] { return wait_for(engine_->gradients(batch, settings), settings.loss_scale); };
  const auto judged = [&](const StepNumbers& numbers) {
    if (fp16 && std::isfinite(numbers.loss_sum) && !std::isfinite(numbers.grad_norm))
      return std::string();  // the scale
    return spikes_.judge(numbers.loss_sum / n, numbers.grad_norm);
  };
  StepNumbers numbers = compute();
  std::string trouble = judged(numbers);
  if (!trouble.empty()) {
    const StepNumbers again = compute();
    const std::string judged_again = judged(again);
    const std::int64_t step = progress_.step + 1;
    if (judged_again.empty()) {
      reporter_->event(
          step, "transient",
          format("step %lld: %s; computed again from the same weights: loss %g, gradient norm %g. A fault of "
                 "hardware is likely; the second result is used",
                 static_cast<long long>(step), trouble.c_str(), again.loss_sum / n, again.grad_norm));
    }
    numbers = again;
    trouble = judged_again;
  }
  if (trouble.empty()) {
    engine_->update(settings);
    if (std::isfinite(numbers.grad_norm)) spikes_.accept(numbers.loss_sum / n, numbers.grad_norm);
    return {0, {}, batch.n_targets, numbers, ""};
  }
  if (!std::isfinite(numbers.loss_sum) || !std::isfinite(numbers.grad_norm)) {
    trouble += ". First found: " + first_offender(*engine_, *job_.backend, session_, batch, settings);
  }
  return {0, {}, batch.n_targets, numbers, trouble};
}

// The step without an update: skipped, or one too many.
void Trainer::recover(const StepReport& report, const std::string& trouble) {
  progress_.updates -= 1;
  progress_.skips_in_row += 1;
  const std::int64_t first = progress_.samples - report.sequences, last = progress_.samples - 1;
  const std::string what = format("step %lld (samples %lld to %lld): %s", static_cast<long long>(report.step),
                                  static_cast<long long>(first), static_cast<long long>(last), trouble.c_str());
  if (progress_.skips_in_row <= deck_.optimizer.max_skips) {
    return reporter_->event(report.step, "skipped", what + "; the step is skipped");
  }
  const std::string advice = "; lower lr.max, lengthen lr.warmup, or look at these samples";
  const std::int64_t to = saver_->saved_step(), samples = progress_.samples;
  rollbacks_ = to == rolled_back_to_ ? rollbacks_ + 1 : 1;
  if (deck_.optimizer.max_skips == 0 || rollbacks_ > deck_.optimizer.max_rollbacks) {
    throw SharedError(Exit::numerics, what + advice);
  }
  const std::optional<Progress> found = saver_->roll_back();
  if (!found) throw SharedError(Exit::numerics, what + "; there is no checkpoint to go back to" + advice);
  rolled_back_to_ = to;
  progress_ = *found;
  progress_.jumps += format("step %lld: %lld to %lld; ", static_cast<long long>(found->step),
                            static_cast<long long>(found->samples), static_cast<long long>(samples - 1));
  const std::string jumped =
      format("; back to step %lld, samples %lld to %lld are left out", static_cast<long long>(found->step),
             static_cast<long long>(found->samples), static_cast<long long>(samples - 1));
  progress_.samples = samples;
  progress_.skips_in_row = 0;
  scaler_.restore(progress_.scaler);
  spikes_.restore(progress_.recent);
  reporter_->begin(progress_.step, device_time());
  reporter_->event(progress_.step, "rolled_back", what + jumped);
}

void Trainer::check_replicas() {
  const std::string problem = differing_replicas(*engine_, *job_.grid, session_, *job_.backend);
  if (problem.empty()) return;
  throw SharedError(Exit::rank,
                    format("step %lld: ", static_cast<long long>(progress_.step)) + problem +
                        ". Memory or a link of that rank's node is suspect; start again without it, the run "
                        "resumes from the last checkpoint");
}

}  // namespace trireme
