#include "trireme/train/predict.h"

#include "catch.h"
#include "trireme/deck/read.h"
#include "trireme/train/search.h"

using namespace trireme;

namespace {

Machine h200() {
  return read_machine(std::string(TRIREME_SOURCE_DIR) + "/machines/h200.toml");
}

Deck deck_of(std::vector<std::string> settings, int n_ranks) {
  const std::vector<std::string> all = {"data.source=mock",    "device.kind=cuda",  "precision.compute=bf16",
                                        "model.layers=8",      "model.hidden=2048", "model.heads=16",
                                        "model.sequence=2048", "batch.global=32",   "batch.micro=1"};
  settings.insert(settings.begin(), all.begin(), all.end());
  return parse_deck({}, settings, n_ranks);
}

Prediction prediction_of(const Deck& deck, const std::array<int, k_n_axes>& size, const Machine& machine) {
  return predict(deck, Model(deck.model), size, DeviceKind::cuda, Cost(machine, deck.precision.compute), 0);
}

}  // namespace

TEST_CASE("the predicted memory is that of the plan and what the machine reserves") {
  const Machine machine = h200();
  for (const auto& [settings, size] :
       {std::pair{std::vector<std::string>{}, std::array<int, k_n_axes>{1, 1, 1, 1}},
        std::pair{std::vector<std::string>{"parallel.pipeline=4"}, std::array<int, k_n_axes>{4, 2, 1, 1}},
        std::pair{std::vector<std::string>{"parallel.pipeline=2", "parallel.virtual_stages=2", "parallel.tensor=2"},
                  std::array<int, k_n_axes>{2, 1, 1, 2}}}) {
    const int n = size[0] * size[1] * size[2] * size[3];
    const Deck deck = deck_of(settings, n);
    double most = 0;
    for (int stage = 0; stage < size[0]; ++stage) {
      const RankPlan plan = plan_rank(deck, Model(deck.model), {size, {stage, 0, 0, 0}}, DeviceKind::cuda);
      most = std::max(most, static_cast<double>(plan.total()));
    }
    CHECK(prediction_of(deck, size, machine).memory == most + machine.reserve);
  }
}

TEST_CASE("more micro-batches take proportionally longer, recomputation takes longer") {
  const Machine machine = h200();
  const std::array<int, k_n_axes> alone{1, 1, 1, 1};
  const double step = prediction_of(deck_of({}, 1), alone, machine).step;
  const double twice = prediction_of(deck_of({"batch.global=64"}, 1), alone, machine).step;
  const double three = prediction_of(deck_of({"batch.global=96"}, 1), alone, machine).step;
  CHECK(three - twice == Approx(twice - step).epsilon(1e-6));
  CHECK(twice - step > 0.9 * step);
  double before = 0;
  for (const char* mode : {"none", "light", "attention", "block"}) {
    const double now = prediction_of(deck_of({std::string("parallel.recompute=") + mode}, 1), alone, machine).step;
    CHECK(now > before);
    before = now;
  }
}

TEST_CASE("the bubble is that of the schedule, messages inside a layer are exposed") {
  const Machine machine = h200();
  const Prediction alone = prediction_of(deck_of({}, 1), {1, 1, 1, 1}, machine);
  const Prediction pipe = prediction_of(deck_of({"parallel.pipeline=4"}, 4), {4, 1, 1, 1}, machine);
  const Prediction tensor = prediction_of(deck_of({"parallel.tensor=4"}, 4), {1, 1, 1, 4}, machine);
  CHECK(alone.bubble == 0);
  CHECK(alone.exposed == 0);
  CHECK(pipe.bubble > 0.02);  // ideal 3 / 35, less what the head makes the last stage busy with
  CHECK(pipe.bubble < 0.2);
  CHECK(tensor.bubble == 0);
  CHECK(tensor.exposed > 0.05);
  CHECK(tensor.step < alone.step);
}

TEST_CASE(
    "the search keeps what was stated, never leaves the node with tp, and gives reasons for all it does not list") {
  Machine machine = h200();
  machine.gpus_per_node = 2;
  const Deck deck = deck_of({"parallel.recompute=light"}, 0);
  SearchSettings settings;
  settings.n_ranks = 8;
  settings.fixed = {"parallel.recompute"};

  const SearchResult result = search_layouts(deck, machine, settings);

  REQUIRE(result.layouts.size() > 3);
  std::int64_t failed = 0;
  for (const auto& [reason, count] : result.failed) failed += count;
  CHECK(result.n_looked_at == failed + static_cast<std::int64_t>(result.layouts.size()));
  double before = 0;
  for (const FoundLayout& found : result.layouts) {
    CHECK(found.deck.parallel.tensor <= 2);
    CHECK(found.deck.parallel.recompute == "light");
    CHECK(found.prediction.step >= before);
    before = found.prediction.step;
    std::vector<std::string> settings_of_found = found.overrides;
    const Deck again = deck_of(settings_of_found, 8);  // the overrides are complete and pass the rules
    CHECK(prediction_of(again, found.size, machine).step == found.prediction.step);
  }
  CHECK(result.failed.count("tensor parallelism would leave the node (--tensor-across-nodes allows it)") == 1);

  settings.tensor_across_nodes = TensorAcrossNodes::allowed;
  settings.fixed.insert("parallel.tensor");
  Deck wide = deck;
  wide.parallel.tensor = 4;
  const SearchResult across = search_layouts(wide, machine, settings);
  REQUIRE_FALSE(across.layouts.empty());
  for (const FoundLayout& found : across.layouts) CHECK(found.deck.parallel.tensor == 4);
}

TEST_CASE("a machine with too little memory is told what fills it") {
  Machine machine = h200();
  machine.memory = 2e9;
  SearchSettings settings;
  settings.n_ranks = 2;

  const SearchResult result = search_layouts(deck_of({}, 0), machine, settings);

  CHECK(result.layouts.empty());
  bool said = false;
  for (const auto& [reason, count] : result.failed) said = said || reason.find("out of memory on") == 0;
  CHECK(said);
  CHECK(search_text(result, machine, settings, 10).find("No layout fits") != std::string::npos);
  CHECK(search_json(result, machine, settings, 10).find("\"fit\": 0") != std::string::npos);
}
