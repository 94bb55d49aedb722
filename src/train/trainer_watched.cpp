// What the trainer does for those who watch a run: tests of the devices, energy, statistics of layers and ranks,
// traces, and what they ask for with files and signals.

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/train/burn_in.h"
#include "trireme/train/stop.h"
#include "trireme/train/trainer.h"

namespace trireme {

// Before the arenas are taken. A device that computes wrongly would only spoil the run.
void Trainer::burn_in_devices() const {
  if (!deck_.device.burn_in) return;
  const double start = wall_seconds();
  const BurnInResult mine =
      burn_in(*job_.backend, job_.grid->world(), dtype_from(deck_.precision.compute), burn_in_size(job_.kind));
  const std::string device = watchdog_.board_device();
  const std::string place = format("rank %d on %s", session_.rank(), session_.host().c_str());
  const std::vector<std::string> places = gather(*job_.control, place + (device.empty() ? "" : ", " + device));
  const BurnInVerdict verdict = judge(gather(*job_.control, mine), places);
  std::string wrong;
  for (const std::string& text : verdict.wrong) wrong += "\n  " + text;
  if (!wrong.empty()) {
    throw SharedError(Exit::rank, "the burn-in (device.burn_in) found wrong results:" + wrong +
                                      "\nStart again without these nodes (sbatch --exclude=NODE)");
  }
  log().info("burn-in     " + verdict.summary + format(" (%.1f s)", wall_seconds() - start));
  for (const std::string& text : verdict.slow) log().warn("burn-in: " + text + ": look at its node");
}

void Trainer::open_energy() {
  std::string why_not = "no GPU";
  const bool gpu = job_.kind == DeviceKind::cuda;
  std::unique_ptr<EnergyMeter> meter =
      meter_of_rank(session_, gpu ? cuda_device_id(session_.local_rank()) : std::string(), &why_not);
  energy_ = std::make_unique<Energy>(session_, *job_.control, std::move(meter));
  if (energy_->measured()) log().info("energy      from the counters of the GPUs (NVML)");
  if (!energy_->measured()) log().debug("energy      not measured: " + why_not);
}

void Trainer::pause() {
  settle();
  energy_->pause();
}

void Trainer::resume() {
  reporter_->restart_clock(device_time());
  energy_->resume();
}

// Gradients are as they were reduced, before clipping; weights are those after the update.
void Trainer::log_layers(double loss_scale) {
  const std::vector<Engine::LayerNorms> norms = engine_->layer_norms(loss_scale);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::string name = i == 0 ? "before" : i + 1 == norms.size() ? "after" : "block " + std::to_string(i - 1);
    log().debug(
        format("  %-10s gradient norm %.4e  weight norm %.4e", name.c_str(), norms[i].gradient, norms[i].weight));
  }
}

void Trainer::compare_ranks(double step_seconds, double waited_seconds) {
  if (!stragglers_) return;
  stragglers_->add(step_seconds - waited_seconds);
  if (progress_.step % deck_.log.every != 0) return;
  const BusyTimes times = stragglers_->compare();
  reporter_->busy(progress_.step, times);
  if (const auto suspect = stragglers_->suspect(times)) reporter_->event(progress_.step, "straggler", *suspect);
}

void Trainer::end_trace() {
  if (saver_->in_flight()) timeline()->add("write a checkpoint", "save", saver_->last_write());
  pause();
  const std::string file = tracing_->finish();
  reporter_->event(progress_.step, "trace", "trace in " + file + ": open it in ui.perfetto.dev or chrome://tracing");
  resume();
}

bool Trainer::must_stop() {
  const Request request = requests_->next();
  if (request.wish == Wish::none) return false;
  pause();
  reporter_->event(progress_.step, "request", request.why);
  if (request.wish == Wish::stop) return true;
  if (request.wish == Wish::profile) tracing_->ask();
  if (request.wish == Wish::profile) return resume(), false;
  if (progress_.step > saver_->saved_step()) save();
  resume();
  return false;
}

}  // namespace trireme
