// Tiny Hugging Face models in fp64, on one rank and on grids: loss, logits and every gradient as transformers computed
// them. One MPI job runs all: a grid of n ranks uses the first n ranks of the job.
//
// usage: hf_parity FOLDER    with FOLDER/<family>/{config.json,model.safetensors,expected.safetensors}
// The fixtures are made by make_fixtures.py, which says what is in them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/io/hf_config.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/comparison.h"
#include "trireme/train/memory_plan.h"

using namespace trireme;

namespace {

using Sizes = std::array<int, k_n_axes>;
const std::vector<Sizes> k_grids = {{1, 1, 1, 1}, {1, 1, 1, 2}, {2, 1, 1, 1}, {3, 1, 1, 1}, {1, 1, 2, 1},
                                    {1, 2, 1, 1}, {2, 1, 1, 2}, {1, 1, 3, 2}, {2, 1, 2, 2}};

const std::vector<std::string> k_families = {"gpt2",         "gpt_neox", "gpt_neox_serial", "llama",
                                             "llama31_tied", "mistral",  "qwen2",           "qwen3"};
constexpr double k_bound = 1e-12;  // of logits and loss, and of gradients over the largest of their layer

struct Fixture {
  Fixture(const std::string& folder, const ModelDeck& deck)
      : model(folder + "/model.safetensors"),
        expected(folder + "/expected.safetensors"),
        family(*hf_family_of(model)),
        sizes{deck.hidden, deck.head_dim} {}
  // Values of our parameter; prefix "grad." reads its gradient.
  std::vector<double> values(const HfFiles& file, const std::string& prefix, const ParamSpec& spec) const {
    std::optional<HfPlace> place = hf_place(family, spec.name, sizes);
    require(place.has_value(), "the family has no " + spec.name);
    place->name = prefix + place->name;
    return hf_values(file, *place, spec.shape);
  }
  HfFiles model, expected;
  HfFamily family;
  HfSizes sizes;
};

// The model of config.json, for the 2 x 48 tokens of the fixtures.
Deck deck_of(const std::string& folder, const Sizes& size) {
  Deck model;
  model.model = read_hf_config(folder).model;
  std::vector<std::string> settings = {"device.kind=cpu",        "parallel.bucket_mb=0.05", "model.sequence=48",
                                       "data.source=mock",       "batch.global=2",          "batch.micro=1",
                                       "precision.compute=fp64", "model.vocab_multiple=16", "model.dropout=0"};
  const char* keys[] = {"parallel.pipeline", "parallel.data", "parallel.context", "parallel.tensor"};
  for (std::size_t i = 0; i < 4; ++i) settings.push_back(std::string(keys[i]) + "=" + std::to_string(size[i]));
  return parse_deck({{folder + "/config.json", print_changes(model)}}, settings, size[0] * size[1] * size[2] * size[3]);
}

// One rank of one grid: an engine that holds the weights of the file.
class Side {
 public:
  Side(const Deck& deck, const Fixture& fixture, const ProcessGrid& grid, Backend& backend)
      : deck_(deck),
        grid_(grid),
        backend_(backend),
        model_(deck.model),
        engine_(deck, model_, grid, backend, plan_rank(deck, model_, grid.here(), DeviceKind::cpu).sizes, Wires::real) {
    engine_.initialise();
    for (ParamId id = 0; id < model_.table().size(); ++id) {
      if (!engine_.params().holds(id)) continue;
      const Param& param = engine_.params().at(id);
      const ParamSpec& spec = model_.table()[id];
      set(param, spec, fixture.values(fixture.model, "", spec));
    }
  }

  Engine& engine() { return engine_; }
  const ParamTable& table() const { return model_.table(); }

  // Token i predicts token i + 1; the last one predicts nothing.
  HostBatch batch(const std::vector<double>& ids) const {
    const GridPoint& here = grid_.here();
    const std::int64_t S = deck_.model.sequence, dp = here.n(Axis::dp);
    const std::vector<std::int32_t> positions = local_positions(S, here.n(Axis::cp), here.at(Axis::cp));
    HostBatch batch;
    batch.positions = positions;
    for (std::int64_t sample = here.at(Axis::dp); sample < deck_.batch.global; sample += dp) {
      ++batch.n_micro;
      for (const std::int32_t p : positions) {
        const auto at = static_cast<std::size_t>(sample * S + p);
        batch.ids.push_back(static_cast<std::int32_t>(ids[at]));
        batch.targets.push_back(p + 1 < S ? static_cast<std::int32_t>(ids[at + 1]) : -1);
        batch.rows.push_back(sample * S + p);
      }
    }
    batch.n_targets = deck_.batch.global * (S - 1);
    return batch;
  }

  // Largest difference of the logits that this rank holds of the first sequence.
  double logits_difference(const HostBatch& batch, const std::vector<double>& expected);

 private:
  void set(const Param& param, const ParamSpec& spec, const std::vector<double>& all) {
    const std::int64_t columns = spec.shape.columns(), n_columns = param.box.extent.columns();
    std::vector<double> mine;
    for (std::int64_t i = 0; i < param.value.count(); ++i) {
      const std::int64_t row = param.box.offset[0] + i / n_columns;
      const std::int64_t column = (spec.shape.rank == 2 ? param.box.offset[1] : 0) + i % n_columns;
      mine.push_back(all[static_cast<std::size_t>(row * columns + column)]);
    }
    backend_.to_device(param.value, mine.data());
  }

  const Deck& deck_;
  const ProcessGrid& grid_;
  Backend& backend_;
  Model model_;
  Engine engine_;
};

// The stages once more by hand, without an engine: training never keeps logits.
double Side::logits_difference(const HostBatch& batch, const std::vector<double>& expected) {
  const GridPoint& here = grid_.here();
  const std::int64_t T = static_cast<std::int64_t>(batch.positions.size()), C = deck_.model.hidden;
  Arena memory(backend_, "logits", std::size_t{1} << 24), scratch(backend_, "scratch", std::size_t{1} << 24);
  Context c{backend_, grid_, engine_.params(), scratch, DType::f64, true, 0, 0, 0, Into::replace, Tensor{}, nullptr};
  if (deck_.model.position == "rope") {
    c.rope_table = memory.take(DType::f64, {deck_.model.sequence, rope_pairs(deck_.model), 2});
    backend_.to_device(c.rope_table, rope_table(deck_.model).data());
  }
  MicroBatch mb{
      1, memory.take(DType::i32, {T}), Tensor{}, memory.take(DType::i32, {T}), memory.take(DType::i64, {T}), Tensor{}};
  backend_.to_device(mb.ids_T, batch.ids.data());
  backend_.to_device(mb.position_T, batch.positions.data());
  backend_.to_device(mb.row_T, batch.rows.data());

  const int pp = here.at(Axis::pp), n_stages = here.n(Axis::pp);
  const Stage stage(model_, engine_.partition().layers(pp, 0), pp == 0, pp == n_stages - 1, Recompute::none);
  Stage::Slot slot{Arena(backend_, "saved", std::size_t{1} << 24), {}, {}};
  Tensor x;
  if (pp > 0) {
    x = memory.take(DType::f64, {T / here.n(Axis::tp), C});
    grid_.along(Axis::pp).recv(x, pp - 1);
  }
  const Tensor y = stage.forward(c, mb, x, slot);
  if (pp + 1 < n_stages) {
    grid_.along(Axis::pp).send(y, pp + 1);
    return 0;
  }
  const Box& box = engine_.params().at(model_.head().weight()).box;
  const Tensor logits = memory.take(DType::f64, {T, box.extent[0]});
  model_.head().logits(c, mb, logits, y);
  double worst = 0;
  for (std::int64_t t = 0; here.at(Axis::dp) == 0 && t < T; ++t) {
    for (std::int64_t v = 0; v < box.extent[0] && box.offset[0] + v < deck_.model.vocab; ++v) {
      const std::int64_t at = batch.positions[static_cast<std::size_t>(t)] * deck_.model.vocab + box.offset[0] + v;
      const double ours = logits.ptr<double>()[t * logits.pitch + v];
      worst = worse(worst, std::abs(ours - expected[static_cast<std::size_t>(at)]));
    }
  }
  return worst;
}

double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

// Collective over the grid; the result is the same on all its ranks.
double gradients_difference(Side& side, const Fixture& fixture, const ProcessGrid& grid, Backend& backend) {
  std::vector<GradientDifference> differences;
  for (ParamId id = 0; id < side.table().size(); ++id) {
    const ParamSpec& spec = side.table()[id];
    std::vector<double> ours(static_cast<std::size_t>(spec.shape.count()), 0.0);
    add_gradient_share(side.engine(), id, grid.replicas(), backend, ours);
    grid.world().all_reduce({reinterpret_cast<std::byte*>(ours.data()), DType::f64, {spec.shape.count()}}, Reduce::sum);
    differences.push_back(compare(spec, ours, fixture.values(fixture.expected, "grad.", spec)));
  }
  double worst = 0;
  for (const double relative : over_layers(differences)) worst = worse(worst, relative);
  return worst;
}

bool check(const std::string& folder, const std::string& family, const ProcessGrid& grid, Backend& backend) {
  const Deck deck = deck_of(folder + "/" + family, grid.here().size);
  const Fixture fixture(folder + "/" + family, deck.model);
  Side side(deck, fixture, grid, backend);
  const HostBatch batch = side.batch(fixture.expected.values("input_ids"));

  const StepNumbers numbers = side.engine().numbers(side.engine().gradients(batch, {}), 1);

  const double loss =
      relative_difference(numbers.loss_sum / static_cast<double>(batch.n_targets), fixture.expected.values("loss")[0]);
  const std::vector<double> expected = fixture.expected.values("logits");
  double logits = side.logits_difference(batch, expected) / largest(expected);
  grid.world().all_reduce({reinterpret_cast<std::byte*>(&logits), DType::f64, {1}}, Reduce::max);
  const double gradients = gradients_difference(side, fixture, grid, backend);
  const double worst = worse(loss, worse(logits, gradients));
  const bool good = worst <= k_bound;
  if (grid.world().rank() == 0) {
    std::printf("%-4s %-15s %-20s loss %.1e logits %.1e gradients %.1e\n", good ? "ok" : "FAIL", family.c_str(),
                to_string(grid.here()).c_str(), loss, logits, gradients);
    std::fflush(stdout);
  }
  return good;
}

int run(const std::string& folder, const MpiSession& session) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<Communicator> world = session.world(*backend, Memory::host);
  int failures = 0;
  for (const Sizes& size : k_grids) {
    const int n = size[0] * size[1] * size[2] * size[3];
    if (n > session.size()) continue;
    const bool inside = session.rank() < n;
    std::unique_ptr<Communicator> part = world->split(inside ? 0 : 1, session.rank());
    if (!inside) continue;
    const ProcessGrid grid(std::move(part), size);
    for (const std::string& family : k_families) failures += check(folder, family, grid, *backend) ? 0 : 1;
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const MpiSession session;
  try {
    require(argc == 2, "usage: hf_parity FOLDER");
    return session.any(run(argv[1], session) > 0) ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
