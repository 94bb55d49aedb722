#include "trireme/train/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/base/check.h"
#include "trireme/train/fp8_weights.h"

namespace trireme {

DType dtype_from(const std::string& precision) {
  if (precision == "fp64") return DType::f64;
  if (precision == "fp32") return DType::f32;
  if (precision == "bf16" || precision == "fp8") return DType::bf16;
  require(precision == "fp16", "unknown precision " + precision);
  return DType::f16;
}

namespace {

Partition partition_from(const Deck& deck) {
  return make_partition(static_cast<int>(deck.model.layers), static_cast<int>(deck.parallel.pipeline),
                        static_cast<int>(deck.parallel.virtual_stages), deck.parallel.stage_layers);
}

ParamStoreOptions store_options(const Deck& deck, DType compute) {
  ParamStoreOptions options;
  options.compute = compute;
  options.gradients = deck.precision.gradients == "bf16" ? DType::bf16 : accumulator_of(compute);
  options.bucket_bytes = static_cast<std::int64_t>(deck.parallel.bucket_mb * 1048576.0);
  options.sequence_parallel = deck.parallel.sequence;
  return options;
}

}  // namespace

Engine::Engine(const Deck& deck, const Model& model, const ProcessGrid& grid, Backend& backend, const ArenaSizes& sizes,
               Wires wires)
    : deck_(deck),
      model_(model),
      grid_(grid),
      backend_(backend),
      partition_(partition_from(deck)),
      compute_(dtype_from(deck.precision.compute)),
      zero_(deck.parallel.zero ? Zero::on : Zero::off),
      wires_(wires),
      persistent_(backend, "weights, gradients and optimizer", sizes.persistent),
      scratch_(backend, "scratch", sizes.scratch),
      clock_(backend) {
  const GridPoint& here = grid.here();
  local_tokens_ = deck.batch.micro * div_exact(deck.model.sequence, here.n(Axis::cp));
  own_tokens_ = deck.parallel.sequence ? div_exact(local_tokens_, here.n(Axis::tp)) : local_tokens_;
  max_micro_ = div_exact(deck.batch.global, deck.batch.micro * here.n(Axis::dp));
  params_ = std::make_unique<ParamStore>(model.table(), here, partition_, store_options(deck, compute_), persistent_);
  std::size_t weights = 0, gradients = 0;
  for (const Bucket& bucket : params_->buckets()) {
    weights += bucket.value.bytes();
    gradients += bucket.grad.bytes();
  }
  noted_.emplace_back("weights", weights);
  noted_.emplace_back("gradients", gradients);
  optimizer_ = std::make_unique<AdamW>(*params_, grid, backend, deck.precision, zero_, persistent_);
  noted_.emplace_back("optimizer state", optimizer_->bytes());
  reducer_ = std::make_unique<GradientReducer>(*params_, grid, backend, zero_);
  fp8_ = make_fp8_weights(deck, model, *params_, local_tokens_, persistent_);
  if (fp8_) note("fp8 weights");
  take_inputs();
  take_pipeline(sizes, wires);
  note("inputs, tables and boundary tensors");
  pinned_ = backend.allocate_pinned(4 * sizeof(double));
}

Engine::~Engine() {
  backend_.release_pinned(pinned_);
}

// Bytes taken from the persistent arena since what is noted already.
void Engine::note(const std::string& purpose) {
  std::size_t before = 0;
  for (const auto& [name, bytes] : noted_) before += bytes;
  noted_.emplace_back(purpose, persistent_.peak() - before);
}

void Engine::take_inputs() {
  const std::int64_t n = max_micro_ * local_tokens_;
  ids_ = persistent_.take(DType::i32, {n});
  targets_ = persistent_.take(DType::i32, {n});
  positions_ = persistent_.take(DType::i32, {deck_.data.reset_positions ? n : local_tokens_});
  if (deck_.data.mask_documents) doc_starts_ = persistent_.take(DType::i32, {n});
  rows_ = persistent_.take(DType::i64, {n});
  numbers_ = persistent_.take(DType::f64, {2});
  layer_squares_ = persistent_.take(DType::f64, {partition_.n_layers + 2, 2});
  if (model_.deck().position != "rope") return;
  rope_ = persistent_.take(accumulator_of(compute_), {model_.deck().sequence, rope_pairs(model_.deck()), 2});
}

void Engine::take_pipeline(const ArenaSizes& sizes, Wires wires) {
  const int stage = grid_.here().at(Axis::pp), n_stages = partition_.n_stages, n_chunks = partition_.n_chunks;
  const Schedule schedule =
      make_schedule(deck_.parallel.schedule, stage, n_stages, static_cast<int>(max_micro_), n_chunks);
  std::vector<Stage> stages;
  PipelineLayout layout;
  layout.own_tokens = own_tokens_;
  layout.hidden = model_.deck().hidden;
  layout.compute = compute_;
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    const bool first = stage == 0 && chunk == 0, last = stage == n_stages - 1 && chunk == n_chunks - 1;
    stages.emplace_back(model_, partition_.layers(stage, chunk), first, last,
                        recompute_from(deck_.parallel.recompute_of(chunk * n_stages + stage)));
    layout.n_slots.push_back(max_in_flight(schedule, chunk));
    layout.slot_bytes.push_back(sizes.slots.empty() ? ArenaSizes::k_unlimited
                                                    : sizes.slots[static_cast<std::size_t>(chunk)]);
  }
  PipelineLinks links =
      wires == Wires::real ? PipelineLinks(grid_) : PipelineLinks::planned(n_stages, &pipeline_bytes_);
  pipeline_ = std::make_unique<Pipeline>(std::move(stages), layout, std::move(links), backend_, persistent_);
}

Engine::MemoryUse Engine::memory() const {
  MemoryUse use = noted_;
  const ArenaSizes peak = peaks();
  std::size_t saved = 0;
  for (std::size_t i = 0; i < peak.slots.size(); ++i) {
    saved += peak.slots[i] * static_cast<std::size_t>(pipeline_->n_slots(static_cast<int>(i)));
  }
  use.emplace_back("saved activations", saved);
  use.emplace_back("scratch", peak.scratch);
  use.emplace_back("workspace of the backend", backend_.workspace_bytes());
  return use;
}

ArenaSizes Engine::peaks() const {
  ArenaSizes peaks{persistent_.peak(), scratch_.peak(), {}};
  for (int chunk = 0; chunk < partition_.n_chunks; ++chunk) peaks.slots.push_back(pipeline_->peak_of_slot(chunk));
  return peaks;
}

void Engine::initialise() {
  params_->initialise(backend_, static_cast<std::uint64_t>(deck_.run.seed));
  optimizer_->initialise();
  if (rope_ && wires_ == Wires::real) fill_rope_table();  // nobody reads that of a plan
  if (backend_.first_calls_wait()) rehearse();
}

void Engine::fill_rope_table() {
  const std::vector<double> table = rope_table(model_.deck());
  if (rope_.dtype == DType::f64) {
    backend_.to_device(rope_, table.data());
    return;
  }
  const std::vector<float> narrow(table.begin(), table.end());
  backend_.to_device(rope_, narrow.data());
}

std::vector<MicroBatch> Engine::upload(const HostBatch& batch) {
  require(batch.n_micro <= max_micro_, "a batch has at most the planned micro-batches");
  const std::int64_t n = batch.n_micro * local_tokens_;
  if (!batch.ids.empty()) backend_.to_device(ids_.slice_rows(0, n), batch.ids.data());
  if (!batch.targets.empty()) backend_.to_device(targets_.slice_rows(0, n), batch.targets.data());
  const auto n_positions = static_cast<std::int64_t>(batch.positions.size());
  backend_.to_device(positions_.slice_rows(0, n_positions), batch.positions.data());
  if (!batch.doc_starts.empty()) backend_.to_device(doc_starts_.slice_rows(0, n), batch.doc_starts.data());
  backend_.to_device(rows_.slice_rows(0, n), batch.rows.data());
  std::vector<MicroBatch> micro_batches;
  for (std::int64_t m = 0; m < batch.n_micro; ++m) {
    const auto part = [&](Tensor all) { return all ? all.slice_rows(m * local_tokens_, local_tokens_) : all; };
    const Tensor positions = deck_.data.reset_positions ? part(positions_) : positions_;
    micro_batches.push_back({deck_.batch.micro, part(ids_), part(targets_), positions, part(rows_), part(doc_starts_)});
  }
  return micro_batches;
}

Context Engine::context(std::uint32_t step, double dropout) {
  return {backend_,
          grid_,
          *params_,
          scratch_,
          compute_,
          deck_.parallel.sequence,
          static_cast<std::uint64_t>(deck_.run.seed),
          step,
          dropout,
          Into::replace,
          rope_,
          nullptr,
          fp8_.get()};
}

// Every kernel is loaded and every matrix product tuned while no message between stages is under way.
void Engine::rehearse() {
  for (const Tensor& x : {ids_, targets_, positions_, rows_, doc_starts_}) {
    if (x) backend_.fill(x, 0);
  }
  backend_.fill(numbers_, 0);
  Context c = context(0, deck_.model.dropout);
  const auto part = [&](Tensor all) { return all ? all.slice_rows(0, local_tokens_) : all; };
  pipeline_->rehearse(c,
                      {deck_.batch.micro, part(ids_), part(targets_), part(positions_), part(rows_), part(doc_starts_)},
                      numbers_.slice_rows(1, 1));
  backend_.synchronize();
}

void Engine::run(const HostBatch& batch, const UpdateSettings& settings, Pass pass) {
  const bool training = pass != Pass::forward, reduces = pass == Pass::gradients;
  std::vector<MicroBatch> micro_batches;
  {
    const Within here(backend_, timeline_, "upload", "phase");
    micro_batches = upload(batch);
  }
  const int stage = grid_.here().at(Axis::pp), n_stages = partition_.n_stages, n_chunks = partition_.n_chunks;
  Context c = context(settings.step, training ? deck_.model.dropout : 0);
  Pipeline::Work work;
  work.micro_batches = micro_batches;
  work.loss_1 = numbers_.slice_rows(1, 1);
  work.gradient_scale = settings.loss_scale / static_cast<double>(std::max<std::int64_t>(1, batch.n_targets));
  work.training = training;
  if (training) clock_.begin_step();
  if (training) work.clock = &clock_;
  work.begins = before_action_;
  work.timeline = timeline_;
  if (reduces) work.passed = [this](int chunk, int layer) { reducer_->passed(chunk, layer); };
  backend_.fill(numbers_, 0);
  if (training) reducer_->begin_step();
  {
    const Within here(backend_, timeline_, training ? "forward and backward" : "forward", "phase");
    pipeline_->run(c,
                   training ? make_schedule(deck_.parallel.schedule, stage, n_stages, batch.n_micro, n_chunks)
                            : forward_only(n_stages, batch.n_micro, n_chunks),
                   work);
  }
  if (!reduces) return;
  const Within here(backend_, timeline_, "reduce gradients", "phase");
  clock_.enter(Phase::waiting);
  reducer_->finish();
  reducer_->add_norm(numbers_.slice_rows(0, 1));
}

// Every rank of a stage's tp group has the same loss: one of them counts.
int Engine::reduce_numbers() {
  const GridPoint& here = grid_.here();
  const bool counts = here.at(Axis::pp) == here.n(Axis::pp) - 1 && here.at(Axis::tp) == 0;
  if (!counts) backend_.fill(numbers_.slice_rows(1, 1), 0);
  grid_.world().all_reduce(numbers_, Reduce::sum);
  const int ticket = n_reads_++;
  timed_[ticket % 2] = 0;
  backend_.to_host_later(pinned_ + (ticket % 2) * 2 * sizeof(double), numbers_);
  read_marks_[ticket % 2] = backend_.mark();
  return ticket;
}

int Engine::train(const HostBatch& batch, const UpdateSettings& settings) {
  const int ticket = gradients(batch, settings);
  update(settings);
  return ticket;
}

void Engine::update(const UpdateSettings& settings) {
  if (before_update_) before_update_();
  const Within here(backend_, timeline_, "optimizer", "phase");
  clock_.enter(Phase::optimizer);
  optimizer_->step(deck_.optimizer, settings.lr, 1.0 / settings.loss_scale, settings.update,
                   static_cast<std::uint64_t>(deck_.run.seed), numbers_.slice_rows(0, 1));
  if (fp8_) fp8_->weights_changed();
  clock_.end_step();
}

double Engine::local_gradients(const HostBatch& batch, const UpdateSettings& settings) {
  run(batch, settings, Pass::local_gradients);
  double loss = 0;
  backend_.to_host(&loss, numbers_.slice_rows(1, 1));
  return loss;
}

int Engine::gradients(const HostBatch& batch, const UpdateSettings& settings) {
  run(batch, settings, Pass::gradients);
  const int ticket = reduce_numbers();
  timed_[ticket % 2] = clock_.step();
  return ticket;
}

int Engine::evaluate(const HostBatch& batch) {
  run(batch, {}, Pass::forward);
  return reduce_numbers();
}

StepNumbers Engine::numbers(int ticket, double loss_scale) {
  require(ticket >= n_reads_ - 2 && ticket < n_reads_, "numbers are kept for two steps");
  backend_.wait(read_marks_[ticket % 2]);
  double values[2];
  std::memcpy(values, pinned_ + (ticket % 2) * sizeof(values), sizeof(values));
  const std::int64_t timed = timed_[ticket % 2];
  return {values[1], std::sqrt(values[0]) / loss_scale, backend_.time_of(read_marks_[ticket % 2]),
          timed > 0 && timed + 1 >= clock_.step() ? clock_.seconds(timed) : PhaseSeconds{}};
}

std::vector<Engine::LayerNorms> Engine::layer_norms(double loss_scale) {
  backend_.fill(layer_squares_, 0);
  params_->settle();
  reducer_->add_layer_norms(layer_squares_);
  grid_.world().all_reduce(layer_squares_, Reduce::sum);
  std::vector<double> squares(static_cast<std::size_t>(layer_squares_.count()));
  backend_.to_host(squares.data(), layer_squares_);
  std::vector<LayerNorms> norms;
  for (std::size_t i = 0; i < squares.size(); i += 2) {
    norms.push_back({std::sqrt(squares[i]) / loss_scale, std::sqrt(squares[i + 1])});
  }
  return norms;
}

}  // namespace trireme
