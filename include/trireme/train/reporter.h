#pragma once
// What a run says: one readable line and one JSON object per logged step, validation losses and events, a live line on
// a terminal. Rank 0 only; the other ranks hold a reporter that is silent.

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/train/event_file.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/phase_clock.h"
#include "trireme/train/stragglers.h"

namespace trireme {

struct StepReport {
  std::int64_t step = 0, tokens_in_step = 0, tokens = 0;  // tokens: since the start of the run, all resumes included
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;
  std::int64_t sequences = 0, epoch = 0;
  double time = 0;               // seconds, on the device's clock, when the step was done
  std::optional<double> joules;  // of all ranks' GPUs since the last step that was due
  PhaseSeconds phases{};
  double matmul_rate = 0;  // FLOP/s of this rank's matrix products, as measured when they were chosen; 0: not measured
};

class Reporter {
 public:
  enum class Voice : std::uint8_t { silent, speaking };
  // peak_flops: of one rank's device, 0 when unknown. memory: planned bytes of this rank. first_step: metrics of later
  // steps are cut off, they belong to a future that a resume undoes.
  Reporter(const Deck& deck, Voice voice, const ModelFlops& flops, double peak_flops, int n_ranks, double memory);
  void begin(std::int64_t first_step, double time);
  void restart_clock(double time);    // what passed since the last step (a save, a validation) is no training time
  bool due(std::int64_t step) const;  // this step makes a line; the same on every rank
  void step(const StepReport& report);
  void validation(std::int64_t step, double loss, double seconds);
  void test(std::int64_t step, double loss, double seconds);
  void busy(std::int64_t step, const BusyTimes& times);
  void event(std::int64_t step, const std::string& kind, const std::string& text);
  // With numbers of its own: {"stall_s", 0.12}.
  using Numbers = std::vector<std::pair<std::string, double>>;
  void event(std::int64_t step, const std::string& kind, const std::string& text, const Numbers& numbers);

 private:
  void held_out(const char* part, std::int64_t step, double loss, double seconds);
  using Clock = std::chrono::steady_clock;
  void write(const std::string& json);
  void tell_watchers(const StepReport& report, const EventFile::Scalars& rates);

  const Deck& deck_;
  Voice voice_;
  ModelFlops flops_;
  double peak_flops_, memory_;
  int n_ranks_;
  std::string path_;
  std::optional<EventFile> scalars_;  // of TensorBoard
  Clock::time_point last_progress_;
  double last_time_ = 0, window_ = 0;  // of the last step; seconds in steps since the last line
  PhaseSeconds window_phases_{};
  std::int64_t window_steps_ = 0, window_tokens_ = 0;
};

// Dense bf16 peak of devices the program knows by name, in FLOP/s; 0 for others.
double known_peak(const std::string& device);

}  // namespace trireme
