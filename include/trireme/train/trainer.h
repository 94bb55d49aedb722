#pragma once
// The main loop: resume, steps, validation, checkpoints, stopping. It decides when; how is the business of engine,
// checkpoint and reporter. Every decision is made from numbers that all ranks share.

#include <memory>
#include <optional>
#include <string>

#include "trireme/base/check.h"
#include "trireme/data/token_source.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/energy.h"
#include "trireme/train/engine.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/reporter.h"
#include "trireme/train/requests.h"
#include "trireme/train/saver.h"
#include "trireme/train/stragglers.h"
#include "trireme/train/tracing.h"
#include "trireme/train/watchdog.h"

namespace trireme {

class Trainer {
 public:
  // Collective. Throws Error for everything the user can mend.
  Trainer(const Deck& deck, const MpiSession& session);
  ~Trainer();
  Exit run();

 private:
  struct Outstanding {  // a step whose numbers the device has not delivered yet
    int ticket;
    StepReport report;
    std::int64_t n_targets;
    std::optional<StepNumbers> numbers;  // when they are known already
    std::string trouble;                 // why there was no update; empty: there was
  };

  Exit train();
  void open_run_folder();
  void print_start_up_table() const;
  void burn_in_devices() const;
  void one_step();
  HostBatch read_batch(std::int64_t sequences);
  Outstanding careful_step(const HostBatch& batch, const UpdateSettings& settings);
  StepNumbers wait_for(int ticket, double loss_scale);
  void recover(const StepReport& report, const std::string& trouble);
  void check_replicas();
  void log_layers(double loss_scale);
  void open_energy();
  void pause();   // what follows is no training
  void resume();  // it is again
  void settle();  // reads the numbers of the outstanding step and reports them
  double evaluate(const BatchFeed& feed, std::int64_t batches);
  void validate();
  void test();           // once, after the last step
  double device_time();  // seconds on the device's clock when it has done all it was given
  void save();
  void saved();
  void compare_ranks(double step_seconds, double waited_seconds);
  bool must_stop();  // grants requests to save or to trace on the way
  void end_trace();
  Timeline* timeline() { return tracing_->timeline(); }
  bool rank0() const { return session_.rank() == 0; }
  std::string checkpoint_folder() const { return deck_.run.output + "/checkpoints"; }

  std::string tokenizer_;  // fingerprint; set with deck_
  const Deck deck_;        // with what the tokenizer says
  const MpiSession& session_;
  double start_;
  Watchdog watchdog_;
  Model model_;
  Job job_;
  RankPlan plan_;
  TokenSplit data_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<BatchFeed> feed_, validation_feed_, test_feed_;
  std::vector<std::string> data_lines_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Requests> requests_;
  std::unique_ptr<Stragglers> stragglers_;  // on CPUs
  std::unique_ptr<Tracing> tracing_;
  std::unique_ptr<Energy> energy_;
  LossScaler scaler_;
  SpikeDetector spikes_;
  std::int64_t rollbacks_ = 0, rolled_back_to_ = -1;
  Progress progress_;
  std::optional<Outstanding> outstanding_;
  std::int64_t skipped_ = 0;
};

}  // namespace trireme
