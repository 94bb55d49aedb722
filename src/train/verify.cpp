#include <algorithm>
#include <cmath>
#include <memory>

#include "trireme/base/log.h"
#include "trireme/data/token_source.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/commands.h"
#include "trireme/train/engine.h"
#include "trireme/train/job.h"
#include "trireme/train/lr.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/start_up.h"

namespace trireme {

double reorder_bound(const std::string& precision) {
  if (precision == "fp64") return 1e-11;
  if (precision == "fp32") return 2e-5;
  return 2e-2;  // sums of bf16 and fp16 tensors round at every hop
}

namespace {

// An engine and what feeds it, on the grid of the job or on one rank.
struct Side {
  Side(const Deck& deck, const Model& model, const ProcessGrid& grid, Backend& backend, DeviceKind kind,
       const TokenSource& source, Communicator* control)
      : feed(deck, grid.here(), &source, control),
        engine(deck, model, grid, backend, plan_rank(deck, model, grid.here(), kind).sizes, Wires::real) {
    engine.initialise();
  }
  BatchFeed feed;
  Engine engine;
};

UpdateSettings settings_of(const Deck& deck, int step) {
  UpdateSettings settings;
  settings.lr = learning_rate(deck.lr, step);
  settings.loss_scale = deck.precision.compute == "fp16" ? 1024 : 1;
  settings.update = step;
  settings.step = static_cast<std::uint32_t>(step);
  return settings;
}

// This rank's share of the gradient of one parameter, in the global array; zero where others count.
void add_share(Engine& engine, ParamId id, const Communicator& replicas, Backend& backend,
               std::vector<double>& global) {
  const ParamSpec& spec = engine.params().table()[id];
  const std::int64_t columns = spec.shape.rank == 2 ? spec.shape[1] : 1;
  for (const Bucket& bucket : engine.params().buckets()) {
    if (!bucket.counts || (engine.zero() == Zero::off && replicas.rank() != 0)) continue;
    const Range own = owned_range(bucket, replicas, engine.zero());
    for (const BucketPart& part : bucket.parts) {
      const std::int64_t first = std::max(own.first, part.offset),
                         last = std::min(own.last, part.offset + part.box.count());
      if (part.id != id || first >= last) continue;
      std::vector<double> values(static_cast<std::size_t>(last - first));
      const Tensor slice = bucket.grad.slice_rows(first, last - first);
      std::byte* memory = backend.allocate(values.size() * sizeof(double));
      const DType wide = slice.dtype == DType::f64 ? DType::f64 : DType::f32;
      const Tensor copy(memory, wide, slice.shape);
      backend.copy(copy, slice);
      std::vector<float> narrow(wide == DType::f32 ? values.size() : 0);
      backend.to_host(wide == DType::f32 ? static_cast<void*>(narrow.data()) : values.data(), copy);
      std::copy(narrow.begin(), narrow.end(), values.begin());
      backend.release(memory);
      const std::int64_t box_columns = part.box.extent.rank == 2 ? part.box.extent[1] : 1;
      for (std::int64_t i = 0; i < last - first; ++i) {
        const std::int64_t at = first - part.offset + i, r = at / box_columns, k = at % box_columns;
        const std::int64_t row = part.box.offset[0] + r,
                           column = part.box.extent.rank == 2 ? part.box.offset[1] + k : 0;
        global[static_cast<std::size_t>(row * columns + column)] += values[static_cast<std::size_t>(i)];
      }
    }
  }
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return size > 0 ? difference / size : difference;
}

Deck one_rank_deck(const Deck& deck) {
  Deck one = deck;
  one.parallel.tensor = one.parallel.pipeline = one.parallel.context = one.parallel.data = one.parallel.virtual_stages =
      1;
  one.parallel.stage_layers.clear();
  return one;
}

// The gradient table; returns the worst relative difference (rank 0's is everyone's).
double compare_gradients(const Deck& deck, const Job& job, Side& grid_side, Side* one_side) {
  grid_side.engine.gradients(grid_side.feed.read(0, deck.batch.global), settings_of(deck, 1));
  if (one_side != nullptr) one_side->engine.gradients(one_side->feed.read(0, deck.batch.global), settings_of(deck, 1));
  const std::unique_ptr<Communicator> self = make_self_communicator(*job.host);
  double worst = 0;
  const ParamTable& table = grid_side.engine.params().table();
  for (ParamId id = 0; id < table.size(); ++id) {
    std::vector<double> ours(static_cast<std::size_t>(table[id].shape.count()), 0.0), theirs(ours);
    add_share(grid_side.engine, id, job.grid->replicas(), *job.backend, ours);
    const Tensor view(reinterpret_cast<std::byte*>(ours.data()), DType::f64, {static_cast<std::int64_t>(ours.size())});
    job.control->all_reduce(view, Reduce::sum);
    if (one_side == nullptr) continue;
    add_share(one_side->engine, id, *self, *job.backend, theirs);
    const double difference = largest_difference(ours, theirs);
    worst = std::max(worst, difference);
    log().info(format("  %-32s %.3e", table[id].name.c_str(), difference));
  }
  return worst;
}

}  // namespace

Exit verify(const Deck& deck, const MpiSession& session, int steps) {
  log().open(session.rank() == 0, log_level_from(deck.log.level), "");
  const Job job = make_job(deck, session);
  const Deck one_deck = one_rank_deck(deck);
  const Model model(deck.model);
  TokenSplit data;
  together(session, [&] {
    data = open_tokens(deck.data, deck.model.vocab, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  });
  const ProcessGrid alone(make_self_communicator(*job.backend), {1, 1, 1, 1});
  Side grid_side(deck, model, *job.grid, *job.backend, job.kind, *data.training, job.control.get());
  std::unique_ptr<Side> one_side;
  if (session.rank() == 0) {
    one_side = std::make_unique<Side>(one_deck, model, alone, *job.backend, job.kind, *data.training, nullptr);
  }
  log().info("largest gradient difference over the largest gradient, " + to_string(job.grid->here()) +
             " against one rank:");
  double worst = compare_gradients(deck, job, grid_side, one_side.get());
  log().info("loss and gradient norm, this grid and one rank:");
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t first = (step - 1) * deck.batch.global;
    const UpdateSettings settings = settings_of(deck, step);
    const HostBatch batch = grid_side.feed.read(first, deck.batch.global);
    const StepNumbers ours = grid_side.engine.numbers(grid_side.engine.train(batch, settings), settings.loss_scale);
    if (!one_side) continue;
    HostBatch whole = one_side->feed.read(first, deck.batch.global);
    whole.n_targets = batch.n_targets;
    const StepNumbers theirs = one_side->engine.numbers(one_side->engine.train(whole, settings), settings.loss_scale);
    const double loss = std::abs(ours.loss_sum - theirs.loss_sum) / std::abs(theirs.loss_sum);
    const double norm = std::abs(ours.grad_norm - theirs.grad_norm) / std::abs(theirs.grad_norm);
    worst = std::max({worst, loss, norm});
    const double n = static_cast<double>(batch.n_targets);
    log().info(format("  step %2d  loss %.12f %.12f (%.1e)  norm %.9f %.9f (%.1e)", step, ours.loss_sum / n,
                      theirs.loss_sum / n, loss, ours.grad_norm, theirs.grad_norm, norm));
  }
  const double bound = reorder_bound(deck.precision.compute);
  const bool good = std::isfinite(worst) && worst <= bound;
  log().info(format("%s: largest difference %.3e, bound for %s %.0e", good ? "pass" : "FAIL", worst,
                    deck.precision.compute.c_str(), bound));
  return session.any(!good) ? Exit::failed : Exit::finished;
}

}  // namespace trireme
