#include <algorithm>
#include <cmath>
#include <memory>

#include "trireme/base/log.h"
#include "trireme/data/token_source.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/commands.h"
#include "trireme/train/comparison.h"
#include "trireme/train/data_start.h"
#include "trireme/train/engine.h"
#include "trireme/train/job.h"
#include "trireme/train/lr.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/start_up.h"

namespace trireme {

double reorder_bound(const std::string& precision) {
  if (precision == "fp64") return 1e-11;
  if (precision == "fp32") return 2e-5;
  if (precision == "fp8") return 1e-1;  // a last bit of bf16 may turn over a last bit of e5m2, an eighth of its value
  return 2e-2;                          // sums of bf16 and fp16 tensors round at every hop
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

Deck one_rank_deck(const Deck& deck) {
  Deck one = deck;
  one.parallel.tensor = one.parallel.pipeline = one.parallel.context = one.parallel.data = one.parallel.virtual_stages =
      1;
  one.parallel.stage_layers.clear();
  one.parallel.stage_recompute.clear();
  return one;
}

// The batch of the grid, read whole: only the grid counts unmasked targets.
HostBatch same_batch(const Side& one, const Deck& deck, std::int64_t first, const HostBatch& batch) {
  HostBatch whole = one.feed.read(first, deck.batch.global);
  whole.n_targets = batch.n_targets;
  return whole;
}

// The gradient table; returns the worst relative difference (rank 0's is everyone's).
double compare_gradients(const Deck& deck, const MpiSession& session, const Job& job, Side& grid_side, Side* one_side) {
  const HostBatch batch = read_together(session, grid_side.feed, 0, deck.batch.global);
  grid_side.engine.gradients(batch, settings_of(deck, 1));
  if (one_side != nullptr) one_side->engine.gradients(same_batch(*one_side, deck, 0, batch), settings_of(deck, 1));
  const std::unique_ptr<Communicator> self = make_self_communicator(*job.host);
  std::vector<GradientDifference> differences;
  const ParamTable& table = grid_side.engine.params().table();
  for (ParamId id = 0; id < table.size(); ++id) {
    std::vector<double> ours(static_cast<std::size_t>(table[id].shape.count()), 0.0), theirs(ours);
    add_gradient_share(grid_side.engine, id, job.grid->replicas(), *job.backend, ours);
    const Tensor view(reinterpret_cast<std::byte*>(ours.data()), DType::f64, {static_cast<std::int64_t>(ours.size())});
    job.control->all_reduce(view, Reduce::sum);
    if (one_side == nullptr) continue;
    add_gradient_share(one_side->engine, id, *self, *job.backend, theirs);
    differences.push_back(compare(table[id], ours, theirs));
  }
  double worst = 0;
  const std::vector<double> relative = over_layers(differences);
  for (std::size_t i = 0; i < relative.size(); ++i) {
    worst = worse(worst, relative[i]);
    log().info(format("  %-32s %.3e", differences[i].name.c_str(), relative[i]));
  }
  return worst;
}

}  // namespace

Exit verify(const Deck& stated, const MpiSession& session, int steps) {
  log().open(session.rank() == 0, log_level_from(stated.log.level), "");
  std::string tokenizer;
  const Deck deck = settled_deck(stated, session, tokenizer);
  const Job job = make_job(deck, session, nullptr);
  const Deck one_deck = one_rank_deck(deck);
  const Model model(deck.model);
  const TokenSplit data = open_data(deck, job.grid->here(), session);
  const ProcessGrid alone(make_self_communicator(*job.backend), {1, 1, 1, 1});
  Side grid_side(deck, model, *job.grid, *job.backend, job.kind, *data.training, job.control.get());
  std::unique_ptr<Side> one_side;
  if (session.rank() == 0) {
    one_side = std::make_unique<Side>(one_deck, model, alone, *job.backend, job.kind, *data.training, nullptr);
  }
  log().info("largest gradient difference over the largest gradient of the layer, " + to_string(job.grid->here()) +
             " against one rank:");
  double worst = compare_gradients(deck, session, job, grid_side, one_side.get());
  log().info("loss and gradient norm, this grid and one rank:");
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t first = (step - 1) * deck.batch.global;
    const UpdateSettings settings = settings_of(deck, step);
    const HostBatch batch = read_together(session, grid_side.feed, first, deck.batch.global);
    const StepNumbers ours = grid_side.engine.numbers(grid_side.engine.train(batch, settings), settings.loss_scale);
    if (!one_side) continue;
    const HostBatch whole = same_batch(*one_side, deck, first, batch);
    const StepNumbers theirs = one_side->engine.numbers(one_side->engine.train(whole, settings), settings.loss_scale);
    const double loss = relative_difference(ours.loss_sum, theirs.loss_sum);
    const double norm = relative_difference(ours.grad_norm, theirs.grad_norm);
    worst = worse(worst, worse(loss, norm));
    const double n = static_cast<double>(batch.n_targets);
    log().info(format("  step %2d  loss %.12f %.12f (%.1e)  norm %.9f %.9f (%.1e)", step, ours.loss_sum / n,
                      theirs.loss_sum / n, loss, ours.grad_norm, theirs.grad_norm, norm));
  }
  grid_side.engine.params();  // nothing is left in flight
  const double bound = reorder_bound(deck.precision.compute);
  const bool good = std::isfinite(worst) && worst <= bound;
  log().info(format("%s: largest difference %.3e, bound for %s %.0e", good ? "pass" : "FAIL", worst,
                    deck.precision.compute.c_str(), bound));
  return session.any(!good) ? Exit::failed : Exit::finished;
}

}  // namespace trireme
