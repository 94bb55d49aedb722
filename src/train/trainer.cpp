#include "trireme/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/deck/read.h"
#include "trireme/train/data_start.h"
#include "trireme/train/lr.h"
#include "trireme/train/restarts.h"
#include "trireme/train/start_up.h"
#include "trireme/train/stop.h"

namespace trireme {

namespace {

constexpr double k_state_bytes = 14;  // of a checkpoint, about, per parameter: weight, master and two moments

}  // namespace

Trainer::Trainer(const Deck& stated, const MpiSession& session)
    : deck_(settled_deck(stated, session, tokenizer_)),
      session_(session),
      start_(wall_seconds()),
      watchdog_(session, deck_.run.hang_minutes, deck_.run.output + "/hang.txt"),
      model_(deck_.model),
      job_(make_job(deck_, session, &watchdog_.recorder())),
      scaler_(deck_.precision),
      spikes_(deck_.optimizer.spike_sigma, static_cast<std::size_t>(deck_.optimizer.spike_window)) {
  open_run_folder();
  watch_signals();
  const GridPoint& here = job_.grid->here();
  data_ = open_data(deck_, here, session);
  together(session_, [&] { plan_ = plan_rank(deck_, model_, here, job_.kind); });
  check_memory(plan_, *job_.backend);
  together(session, [&] {
    feed_ = std::make_unique<BatchFeed>(deck_, here, data_.training.get(), job_.control.get());
    const auto feed_of = [&](const TokenSource* source) {
      return source == nullptr ? nullptr : std::make_unique<BatchFeed>(deck_, here, source, job_.control.get());
    };
    validation_feed_ = feed_of(data_.validation.get());
    test_feed_ = feed_of(data_.test.get());
    data_lines_ = data_lines(deck_, data_);
  });
  const double peak =
      deck_.device.peak_tflops > 0 ? deck_.device.peak_tflops * 1e12 : known_peak(job_.backend->describe());
  reporter_ =
      std::make_unique<Reporter>(deck_, rank0() ? Reporter::Voice::speaking : Reporter::Voice::silent,
                                 flops_per_token(model_), peak, session.size(), static_cast<double>(plan_.total()));
  requests_ = std::make_unique<Requests>(deck_, session, start_,
                                         k_state_bytes * static_cast<double>(model_.table().n_elements()));
  tracing_ = std::make_unique<Tracing>(deck_, session, job_, watchdog_);
  if (job_.kind == DeviceKind::cpu && session.size() > 1)
    stragglers_ = std::make_unique<Stragglers>(*job_.control, session.host());
  print_start_up_table();
  open_energy();
  burn_in_devices();
  engine_ = std::make_unique<Engine>(deck_, model_, *job_.grid, *job_.backend, plan_.sizes, Wires::real);
  engine_->initialise();
  engine_->watch(timeline());
  saver_ =
      std::make_unique<Saver>(deck_, session, job_, *engine_, *reporter_, data_.training->fingerprint(), tokenizer_);
  if (const std::optional<Progress> found = saver_->resume()) progress_ = *found;
  if (progress_.step > 0) scaler_.restore(progress_.scaler);
  spikes_.restore(progress_.recent);
  on_rank_0(session, [&] { note_start(deck_.run.output, progress_.step, print_deck(deck_), deck_.run.max_restarts); });
}

Trainer::~Trainer() = default;

// Rank 0 makes the folder; a failure is everyone's.
void Trainer::open_run_folder() {
  if (!rank0()) log().open(false, LogLevel::error, "");
  on_rank_0(session_, [&] {
    try {
      std::filesystem::create_directories(checkpoint_folder());
      log().open(true, log_level_from(deck_.log.level),
                 deck_.log.file.empty() ? "" : deck_.run.output + "/" + deck_.log.file);
      std::ofstream out(deck_.run.output + "/deck.toml");
      out << print_deck(deck_);
      out.close();
      if (!out) throw Error(Exit::data, "cannot write deck.toml there");
    } catch (const std::exception& e) {
      throw Error(Exit::data, "cannot use the run folder run.output = " + deck_.run.output + ": " + e.what() +
                                  "; check its permissions and free space");
    }
  });
}

void Trainer::print_start_up_table() const {
  std::vector<std::string> lines = job_.decisions;
  lines.insert(lines.end(), data_lines_.begin(), data_lines_.end());
  lines.push_back("time        " + requests_->describe());
  log().info(start_up_table(deck_, model_, plan_, session_.size(), lines));
}

// --- the loop

// What ends all ranks alike ends them at the same place: weights that are still travelling arrive before their memory
// is given back. (Where ranks fail apart nobody may wait for another.)
Exit Trainer::run() {
  try {
    return train();
  } catch (const SharedError&) {
    engine_->params();
    throw;
  }
}

Exit Trainer::train() {
  reporter_->begin(progress_.step, device_time());
  const std::int64_t last = deck_.run.steps;
  if (progress_.step >= last)
    log().info(format("nothing to do: run.steps = %lld are done", static_cast<long long>(last)));
  energy_->resume();
  bool stopping = false;
  tracing_->plan(progress_.step + 1, last);
  while (progress_.step < last && !stopping) {
    const double begin = wall_seconds(), waited = watchdog_.recorder().waited_seconds();
    tracing_->before(progress_.step + 1);
    one_step();
    compare_ranks(wall_seconds() - begin, watchdog_.recorder().waited_seconds() - waited);
    if (saver_->poll()) {
      timeline()->add("write a checkpoint", "save", saver_->last_write());
      saved();
    }
    const std::int64_t step = progress_.step;
    const bool evaluates = deck_.eval.every > 0 && validation_feed_ && (step % deck_.eval.every == 0 || step == last);
    const bool saves = deck_.checkpoint.every > 0 && step % deck_.checkpoint.every == 0 && step > saver_->saved_step();
    if (step == 1) log().debug(format("first step done %.2f s after the deck was read", wall_seconds() - start_));
    requests_->step_took(wall_seconds() - begin);
    if (evaluates || saves) pause();
    if (evaluates) validate();
    if (saves) save();
    if (evaluates || saves) resume();
    if (deck_.run.check_replicas > 0 && step % deck_.run.check_replicas == 0) check_replicas();
    if (tracing_->ends_after(progress_.step)) end_trace();
    stopping = must_stop();
  }
  settle();
  if (tracing_->running()) end_trace();
  engine_->params();  // nothing is left in flight
  const bool early = progress_.step < last;
  const Waiting here(&watchdog_.recorder(), watchdog_.files(), Operation::files, 0);
  saver_->wait();
  if ((early || deck_.checkpoint.at_end) && progress_.step > saver_->saved_step()) saver_->save_now(progress_);
  saved();
  if (!early) test();
  if (!early) reporter_->event(progress_.step, "finished", "finished: " + deck_.run.output);
  if (early) reporter_->event(progress_.step, "stopped", "stopped early after saving; run the same command to go on");
  return early ? Exit::requeue : Exit::finished;
}

void Trainer::one_step() {
  const std::int64_t step = progress_.step + 1;
  const Within here(*job_.backend, timeline(), format("step %lld", static_cast<long long>(step)), "step");
  const std::int64_t sequences = global_batch(deck_.batch, deck_.model.sequence, progress_.samples);
  const HostBatch batch = read_batch(sequences);
  watchdog_.recorder().set_step(step);
  UpdateSettings settings;
  settings.lr = learning_rate(deck_.lr, step);
  settings.loss_scale = scaler_.scale();
  settings.update = progress_.updates + 1;
  settings.step = static_cast<std::uint32_t>(step);
  const bool careful = deck_.optimizer.max_skips > 0 || deck_.optimizer.spike_sigma > 0;
  std::optional<Outstanding> done;
  if (careful) done = careful_step(batch, settings);
  const int ticket = careful ? 0 : engine_->train(batch, settings);
  settle();
  progress_.step = step;
  progress_.updates += 1;
  progress_.samples += sequences;
  progress_.tokens += sequences * deck_.model.sequence;
  StepReport report;
  report.step = step;
  report.tokens_in_step = sequences * deck_.model.sequence;
  report.tokens = progress_.tokens;
  report.lr = settings.lr, report.loss_scale = settings.loss_scale;
  report.sequences = sequences;
  report.epoch = feed_->epoch_of(progress_.samples - 1);
  outstanding_ = Outstanding{ticket, report, batch.n_targets, {}, ""};
  if (done) outstanding_->numbers = done->numbers, outstanding_->trouble = done->trouble;
  // fp16: the next loss scale depends on this step, and a step that overflowed is no update. A CPU has nothing to hide.
  const bool debug = deck_.log.level == "debug";
  if (careful || deck_.precision.compute == "fp16" || job_.kind == DeviceKind::cpu || debug || tracing_->running())
    settle();
  if (debug && (step % deck_.log.every == 0 || step == 1)) log_layers(settings.loss_scale);
}

HostBatch Trainer::read_batch(std::int64_t sequences) {
  const Within here(*job_.backend, timeline(), "read", "phase");
  return read_together(session_, *feed_, progress_.samples, sequences);
}

void Trainer::settle() {
  if (!outstanding_) return;
  StepReport report = outstanding_->report;
  const std::string trouble = outstanding_->trouble;
  const StepNumbers numbers =
      outstanding_->numbers ? *outstanding_->numbers : wait_for(outstanding_->ticket, report.loss_scale);
  report.loss = numbers.loss_sum / static_cast<double>(std::max<std::int64_t>(1, outstanding_->n_targets));
  report.grad_norm = numbers.grad_norm;
  report.time = numbers.time;
  report.phases = numbers.phases;
  const Counters& counted = job_.backend->counters();
  if (counted.timed_seconds > 0) report.matmul_rate = counted.timed_flops / counted.timed_seconds;
  outstanding_.reset();
  const bool overflow = !std::isfinite(numbers.grad_norm);
  const bool fp16 = deck_.precision.compute == "fp16";
  scaler_.update(overflow);
  progress_.scaler = scaler_.state();
  progress_.recent = spikes_.state();
  if (trouble.empty()) progress_.skips_in_row = 0;
  if (overflow && fp16 && trouble.empty()) {
    progress_.updates -= 1;
    log().debug(format("step %lld overflowed at loss scale %g and was skipped", static_cast<long long>(report.step),
                       report.loss_scale));
  }
  if (energy_->measured() && reporter_->due(report.step)) report.joules = energy_->take();
  reporter_->step(report);
  if (!trouble.empty()) return recover(report, trouble);
  if (std::isfinite(report.loss) && (!overflow || fp16)) return;
  throw SharedError(
      Exit::numerics,
      format("step %lld: loss %g, gradient norm %g: not finite. The weights are those of step %lld; lower lr.max, "
             "lengthen lr.warmup, or look at samples %lld to %lld",
             static_cast<long long>(report.step), report.loss, report.grad_norm,
             static_cast<long long>(report.step - 1), static_cast<long long>(progress_.samples - report.sequences),
             static_cast<long long>(progress_.samples - 1)));
}

StepNumbers Trainer::wait_for(int ticket, double loss_scale) {
  const Waiting here(&watchdog_.recorder(), -1, Operation::device, 0);
  return engine_->numbers(ticket, loss_scale);
}

double Trainer::device_time() {
  const std::int64_t mark = job_.backend->mark();
  job_.backend->wait(mark);
  return job_.backend->time_of(mark);
}

double Trainer::evaluate(const BatchFeed& feed, std::int64_t batches) {
  double loss = 0, targets = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    const HostBatch batch = read_together(session_, feed, i * deck_.batch.global, deck_.batch.global);
    loss += engine_->numbers(engine_->evaluate(batch), 1).loss_sum;
    targets += static_cast<double>(batch.n_targets);
  }
  return loss / std::max(1.0, targets);
}

void Trainer::validate() {
  const Within here(*job_.backend, timeline(), "validation", "phase");
  const double start = wall_seconds(), loss = evaluate(*validation_feed_, deck_.eval.batches);
  reporter_->validation(progress_.step, loss, wall_seconds() - start);
}

void Trainer::test() {
  if (!test_feed_) return;
  const std::int64_t samples = test_feed_->samples_per_epoch();
  const double start = wall_seconds();
  const double loss = evaluate(*test_feed_, std::max<std::int64_t>(1, samples / deck_.batch.global));
  reporter_->test(progress_.step, loss, wall_seconds() - start);
}

void Trainer::save() {
  const std::int64_t before = saver_->saved_step();
  const Within span(*job_.backend, timeline(), "save", "save");
  const Waiting here(&watchdog_.recorder(), watchdog_.files(), Operation::files, 0);
  saver_->save(progress_);
  if (saver_->saved_step() > before) saved();
}

// What a save takes until it is committed is what a stop must leave time for.
void Trainer::saved() {
  if (rank0()) note_progress(deck_.run.output);
  if (saver_->longest_save() > 0) requests_->save_took(saver_->longest_save());
}

}  // namespace trireme
