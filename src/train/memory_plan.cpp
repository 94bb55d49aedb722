#include "trireme/train/memory_plan.h"

#include "trireme/train/batch_feed.h"
#include "trireme/train/snapshot.h"
#include "trireme/train/state.h"

namespace trireme {

std::size_t RankPlan::total() const {
  std::size_t bytes = 0;
  for (const auto& [purpose, size] : memory) bytes += size;
  return bytes;
}

HostBatch planned_batch(int n_micro) {
  HostBatch batch;
  batch.n_micro = n_micro;
  batch.n_targets = 1;
  return batch;
}

void meter_step(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind, Meter& meter) {
  const std::unique_ptr<Backend> backend = make_plan_backend(kind, meter);
  const ProcessGrid grid = ProcessGrid::planned(here, meter);
  Engine engine(deck, model, grid, *backend, {}, Wires::planned);
  engine.initialise();
  engine.train(planned_batch(deck.parallel.virtual_stages > 1 ? here.n(Axis::pp) : 1), {});
}

RankPlan memory_of(const Deck& deck, Engine& engine, const GridPoint& here, DeviceKind kind) {
  RankPlan plan;
  plan.here = here;
  plan.sizes = engine.peaks();
  plan.memory = engine.memory();
  const std::size_t copies = copies_inside_mpi(engine.params(), here.n(Axis::dp) * here.n(Axis::cp));
  if (kind == DeviceKind::cpu) plan.memory.emplace_back("copies inside MPI", copies);
  const bool async = deck.checkpoint.async && deck.checkpoint.every > 0;
  if (async && kind == DeviceKind::cpu) plan.snapshot = snapshot_bytes(everything(engine, Contents::all));
  if (async && kind == DeviceKind::cpu) plan.memory.emplace_back("snapshot of asynchronous saves", plan.snapshot);
  plan.n_params = engine.params().n_local();
  for (int chunk = 0; chunk < engine.partition().n_chunks; ++chunk) {
    plan.layers.push_back(engine.partition().layers(here.at(Axis::pp), chunk));
    plan.slots.push_back(engine.pipeline().n_slots(chunk));
  }
  return plan;
}

RankPlan plan_rank(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind) {
  const std::unique_ptr<Backend> backend = make_plan_backend(kind);
  const ProcessGrid grid = ProcessGrid::planned(here);
  Engine engine(deck, model, grid, *backend, {}, Wires::planned);
  const BatchFeed feed(deck, here, nullptr, nullptr);
  const HostBatch batch = feed.read(0, deck.batch.global);
  engine.initialise();
  const ProcessGrid::Traffic before = grid.traffic();
  backend->counters() = {};
  engine.train(batch, {});
  const Counters flops = backend->counters();
  ProcessGrid::Traffic traffic = grid.traffic();
  for (std::size_t i = 0; i < traffic.along.size(); ++i) traffic.along[i] -= before.along[i];
  const double pipeline_bytes = engine.pipeline_bytes();
  engine.evaluate(batch);
  RankPlan plan = memory_of(deck, engine, here, kind);
  plan.flops = flops;
  plan.traffic = traffic;
  plan.pipeline_bytes = pipeline_bytes;
  return plan;
}

ModelFlops flops_per_token(const Model& model) {
  const ModelDeck& deck = model.deck();
  const double n = static_cast<double>(model.n_flop_params());
  const double pairs = static_cast<double>(deck.layers * deck.heads * deck.head_dim * deck.sequence);
  return {6 * n + 6 * pairs, 6 * n + 12 * pairs};
}

}  // namespace trireme
