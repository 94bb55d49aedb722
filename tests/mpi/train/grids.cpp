// One deck, every grid: the same losses and gradient norms on one rank and on every grid, for ten steps (design,
// section 6, test 5). One MPI job runs all cases: a grid of n ranks uses the first n ranks of the job.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/comm/mpi.h"
#include "trireme/data/token_source.h"
#include "trireme/deck/read.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/commands.h"
#include "trireme/train/engine.h"
#include "trireme/train/job.h"
#include "trireme/train/lr.h"
#include "trireme/train/memory_plan.h"

using namespace trireme;

namespace {

using Settings = std::vector<std::string>;

// Models that between them use every feature; sizes are odd where they may be.
const Settings k_common = {"run.steps=10",   "batch.global=8",         "data.source=mock",
                           "data.eod=3",     "data.mask_eod=true",     "lr.max=0.01",
                           "lr.warmup=3",    "model.vocab_multiple=4", "parallel.bucket_mb=0.02",
                           "device.kind=cpu"};
const Settings k_gpt2 = {"model.layers=4", "model.hidden=24",   "model.heads=4", "model.sequence=16",
                         "model.vocab=61", "model.dropout=0.1", "model.ffn=52"};
const Settings k_llama = {"model.layers=4",
                          "model.hidden=20",
                          "model.heads=8",
                          "model.kv_heads=4",
                          "model.head_dim=6",
                          "model.sequence=16",
                          "model.vocab=67",
                          "model.norm=rms",
                          "model.activation=swiglu",
                          "model.position=rope",
                          "model.bias=qkv",
                          "model.qk_norm=true",
                          "model.tie_embeddings=false",
                          "model.ffn=37",
                          "model.z_loss=0.001",
                          "model.rope_scaling=llama3",
                          "model.rope_original_sequence=8"};
// relu_squared with so few channels is chaotic at the common learning rate: rounding would grow tenfold per step.
const Settings k_window = {"model.layers=5",      "model.hidden=16",  "model.heads=6",
                           "model.kv_heads=3",    "model.head_dim=8", "model.sequence=24",
                           "model.vocab=53",      "model.norm=rms",   "model.activation=relu_squared",
                           "model.position=rope", "model.bias=none",  "model.window=7",
                           "model.dropout=0.2",   "lr.max=0.003"};

// Samples of several documents each (one token in five ends one), attention and positions by document; and a model
// whose branches stand side by side.
const Settings k_documents = {"model.layers=4",      "model.hidden=20",          "model.heads=4",
                              "model.kv_heads=2",    "model.head_dim=6",         "model.sequence=24",
                              "model.vocab=5",       "model.norm=rms",           "model.activation=swiglu",
                              "model.position=rope", "model.rope_fraction=0.7",  "model.bias=none",
                              "model.dropout=0.1",   "data.mask_documents=true", "data.reset_positions=true",
                              "model.ffn=21"};
const Settings k_parallel = {"model.layers=3",
                             "model.hidden=24",
                             "model.heads=4",
                             "model.sequence=16",
                             "model.vocab=7",
                             "model.position=rope",
                             "model.rope_fraction=0.4",
                             "model.dropout=0.1",
                             "model.parallel_residual=true",
                             "model.ffn=44",
                             "data.mask_documents=true",
                             "model.tie_embeddings=false"};

// Sides that are multiples of 16 on every rank. The learning rate is small because FP8 turns a last bit of bf16 into a
// last bit of FP8, which a model this small on random tokens would multiply with every step.
const Settings k_gpt_fp8 = {"model.layers=4",    "model.hidden=64", "model.heads=4",
                            "model.sequence=32", "model.vocab=61",  "model.ffn=128",
                            "model.dropout=0.1", "batch.micro=2",   "lr.max=0.0003"};
const Settings k_llama_fp8 = {"model.layers=4",
                              "model.hidden=64",
                              "model.heads=8",
                              "model.kv_heads=4",
                              "model.head_dim=16",
                              "model.sequence=64",
                              "model.vocab=67",
                              "model.norm=rms",
                              "model.activation=swiglu",
                              "model.position=rope",
                              "model.bias=qkv",
                              "model.tie_embeddings=false",
                              "model.ffn=96",
                              "precision.fp8_first_bf16=1",
                              "lr.max=0.0003"};

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// Between them every recipe with every option, dW in bf16 and the LM head in fp8 among them.
const Settings k_gpt_current = with(k_gpt_fp8, {"precision.fp8_recipe=current", "precision.fp8_power_of_two=false",
                                                "precision.fp8_head=true", "model.vocab_multiple=32"});
const Settings k_llama_current =
    with(k_llama_fp8, {"precision.fp8_recipe=current", "precision.fp8_weight_gradients=bf16"});
const Settings k_gpt_block =
    with(k_gpt_fp8, {"precision.fp8_recipe=block", "model.hidden=256", "precision.fp8_bf16_layers=[1,3]"});
const Settings k_llama_block = with(k_llama_fp8, {"precision.fp8_recipe=block", "precision.fp8_power_of_two=false",
                                                  "precision.fp8_head=true", "model.vocab_multiple=32"});

const Settings& settings_of(const std::string& model) {
  if (model == "gpt_current") return k_gpt_current;
  if (model == "llama_current") return k_llama_current;
  if (model == "gpt_block") return k_gpt_block;
  if (model == "llama_block") return k_llama_block;
  if (model == "gpt2") return k_gpt2;
  if (model == "llama") return k_llama;
  if (model == "window") return k_window;
  if (model == "gpt_fp8") return k_gpt_fp8;
  if (model == "llama_fp8") return k_llama_fp8;
  return model == "documents" ? k_documents : k_parallel;
}

struct Case {
  const char* model;
  std::array<int, 4> pp_dp_cp_tp;
  Settings extra;
};

const std::vector<Case> k_cases = {
    {"gpt2", {1, 1, 1, 2}, {}},
    {"gpt2", {1, 1, 1, 2}, {"parallel.sequence=false"}},
    {"gpt2", {2, 1, 1, 1}, {}},
    {"gpt2", {1, 2, 1, 1}, {}},
    {"gpt2", {1, 2, 1, 1}, {"parallel.zero=false"}},
    {"gpt2", {1, 1, 2, 1}, {}},
    {"gpt2", {1, 1, 4, 1}, {"batch.micro=2"}},
    {"gpt2", {2, 1, 2, 2}, {"batch.micro=2"}},
    {"gpt2", {2, 2, 1, 2}, {"parallel.recompute=light"}},
    {"gpt2", {3, 1, 1, 1}, {"parallel.stage_layers=[2,1,1]"}},
    {"gpt2", {2, 1, 1, 1}, {"parallel.virtual_stages=2"}},
    {"gpt2", {2, 1, 1, 2}, {"parallel.virtual_stages=2", "parallel.recompute=block", "batch.micro=2"}},
    {"gpt2", {4, 1, 1, 1}, {"parallel.schedule=gpipe"}},
    {"gpt2", {4, 1, 1, 1}, {R"(parallel.stage_recompute=["block","attention","light","none"])"}},
    {"llama",
     {2, 1, 1, 2},
     {"parallel.virtual_stages=2", R"(parallel.stage_recompute=["block","none","light","none"])"}},
    {"gpt2", {1, 4, 1, 2}, {"batch.micro=2"}},
    {"gpt2", {2, 2, 2, 2}, {"parallel.recompute=attention"}},
    {"gpt2", {1, 1, 1, 3}, {"parallel.sequence=false"}},
    {"llama", {1, 1, 1, 2}, {}},
    {"llama", {1, 1, 1, 4}, {"parallel.sequence=false"}},
    {"llama", {1, 1, 1, 3}, {"parallel.sequence=false"}},
    {"llama", {2, 1, 1, 2}, {"parallel.stage_layers=[1,3]"}},
    {"llama", {1, 2, 2, 2}, {"parallel.recompute=block"}},
    {"llama", {2, 2, 1, 4}, {}},
    {"llama", {2, 1, 4, 2}, {"batch.micro=4"}},
    {"llama", {4, 1, 2, 1}, {"parallel.recompute=light"}},
    {"llama", {1, 8, 1, 2}, {"parallel.zero=false"}},
    {"window", {1, 1, 2, 1}, {}},
    {"window", {1, 1, 3, 1}, {"parallel.recompute=attention"}},
    {"window", {1, 1, 4, 3}, {"parallel.sequence=false"}},
    {"window", {5, 1, 1, 3}, {}},
    {"window", {2, 2, 2, 1}, {"parallel.schedule=gpipe", "parallel.stage_layers=[3,2]"}},
    {"documents", {1, 1, 1, 2}, {"batch.micro=2"}},
    {"documents", {1, 1, 2, 1}, {"batch.micro=2"}},
    {"documents", {1, 1, 4, 1}, {"parallel.recompute=attention"}},
    {"documents", {4, 1, 1, 1}, {"parallel.recompute=light"}},
    {"documents", {2, 2, 2, 2}, {}},
    {"parallel", {1, 1, 1, 2}, {"parallel.recompute=light"}},
    {"parallel", {3, 1, 1, 1}, {"parallel.recompute=block"}},
    {"parallel", {1, 2, 2, 2}, {"parallel.recompute=attention"}},
    {"parallel", {1, 1, 1, 4}, {"parallel.sequence=false"}},
};

const std::vector<Case> k_fp8_cases = {
    {"gpt_fp8", {1, 1, 1, 2}, {}},
    {"gpt_fp8", {1, 1, 1, 2}, {"parallel.sequence=false"}},
    {"gpt_fp8", {2, 1, 1, 1}, {"parallel.virtual_stages=2", "parallel.recompute=light"}},
    {"gpt_fp8", {1, 2, 1, 1}, {}},
    {"gpt_fp8", {1, 1, 2, 1}, {"parallel.recompute=attention"}},
    {"gpt_fp8", {2, 2, 1, 2}, {"parallel.recompute=block"}},
    {"llama_fp8", {1, 1, 1, 2}, {}},
    {"llama_fp8", {2, 1, 2, 2}, {}},
    {"llama_fp8", {1, 2, 1, 2}, {"precision.fp8_format=e4m3"}},
    {"gpt_current", {1, 1, 1, 2}, {}},
    {"gpt_current", {2, 1, 2, 1}, {"parallel.recompute=block"}},
    {"gpt_current", {1, 1, 1, 2}, {"parallel.sequence=false"}},
    {"llama_current", {1, 2, 1, 2}, {"parallel.recompute=light"}},
    {"gpt_block", {1, 1, 1, 2}, {}},
    {"gpt_block", {2, 1, 2, 1}, {"parallel.recompute=light"}},
    {"llama_block", {1, 1, 1, 2}, {}},
    {"llama_block", {2, 2, 1, 2}, {"parallel.recompute=attention"}},
};

Deck deck_of(const Case& which, const std::string& precision, bool one_rank) {
  Settings settings = k_common;
  const Settings& model = settings_of(which.model);
  settings.insert(settings.end(), model.begin(), model.end());
  settings.push_back("precision.compute=" + precision);
  if (!one_rank) {
    const char* keys[] = {"parallel.pipeline", "parallel.data", "parallel.context", "parallel.tensor"};
    for (std::size_t i = 0; i < 4; ++i)
      settings.push_back(std::string(keys[i]) + "=" + std::to_string(which.pp_dp_cp_tp[i]));
    settings.insert(settings.end(), which.extra.begin(), which.extra.end());
  }
  const int n = which.pp_dp_cp_tp[0] * which.pp_dp_cp_tp[1] * which.pp_dp_cp_tp[2] * which.pp_dp_cp_tp[3];
  return parse_deck({}, settings, one_rank ? 1 : n);
}

struct Curve {
  std::vector<double> losses, norms;
};

Curve run(const Deck& deck, const ProcessGrid& grid, Backend& backend, Communicator& control) {
  const Model model(deck.model);
  const TokenSplit data =
      open_tokens(deck.data, deck.model.vocab, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  const RankPlan plan = plan_rank(deck, model, grid.here(), DeviceKind::cpu);
  Engine engine(deck, model, grid, backend, plan.sizes, Wires::real);
  engine.initialise();
  const BatchFeed feed(deck, grid.here(), data.training.get(), &control);
  Curve curve;
  for (int step = 1; step <= deck.run.steps; ++step) {
    const HostBatch batch = feed.read((step - 1) * deck.batch.global, deck.batch.global);
    UpdateSettings settings;
    settings.lr = learning_rate(deck.lr, step);
    settings.update = step;
    settings.step = static_cast<std::uint32_t>(step);
    const StepNumbers numbers = engine.numbers(engine.train(batch, settings), 1);
    curve.losses.push_back(numbers.loss_sum / static_cast<double>(batch.n_targets));
    curve.norms.push_back(numbers.grad_norm);
  }
  engine.params();  // nothing is left in flight
  // The plan is the allocation: every arena is used to its last byte and no further.
  const ArenaSizes used = engine.peaks();
  require(
      used.persistent == plan.sizes.persistent && used.scratch == plan.sizes.scratch && used.slots == plan.sizes.slots,
      "planned bytes are not the bytes taken");
  return curve;
}

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : 1e9;
  }
  return worst;
}

int check_cases(const MpiSession& session, const std::string& precision, int only) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<Communicator> world = session.world(*backend, Memory::host);
  int failures = 0, index = -1;
  for (const Case& which : precision == "fp8" ? k_fp8_cases : k_cases) {
    if (++index != only && only >= 0) continue;
    const std::array<int, k_n_axes> size = which.pp_dp_cp_tp;
    const int n = size[0] * size[1] * size[2] * size[3];
    if (n > session.size()) continue;
    const bool inside = session.rank() < n;
    std::unique_ptr<Communicator> part = world->split(inside ? 0 : 1, session.rank());
    std::unique_ptr<Communicator> control = world->split(inside ? 0 : 1, session.rank());
    if (!inside) continue;
    const ProcessGrid grid(std::move(part), size);
    const Curve curve = run(deck_of(which, precision, false), grid, *backend, *control);
    if (session.rank() != 0) continue;
    const ProcessGrid one(make_self_communicator(*backend), {1, 1, 1, 1});
    const std::unique_ptr<Communicator> self = make_self_communicator(*backend);
    const Curve reference = run(deck_of(which, precision, true), one, *backend, *self);
    const double loss = largest(curve.losses, reference.losses), norm = largest(curve.norms, reference.norms);
    const double bound = std::min(reorder_bound(precision), 2e-2);  // losses and norms average over many elements
    const bool good = loss <= bound && norm <= bound;
    failures += good ? 0 : 1;
    std::string extra;
    for (const std::string& setting : which.extra) extra += " " + setting;
    std::printf("%-4s %2d %s %-13s %-20s loss %.1e norm %.1e first loss %.6f last %.6f%s\n", good ? "ok" : "FAIL",
                index, precision.c_str(), which.model, to_string(grid.here()).c_str(), loss, norm, curve.losses.front(),
                curve.losses.back(), extra.c_str());
    for (std::size_t i = 0; !good && i < curve.losses.size(); ++i) {
      std::printf("     step %2zu  loss %.16f %.16f  norm %.16f %.16f\n", i + 1, curve.losses[i], reference.losses[i],
                  curve.norms[i], reference.norms[i]);
    }
    std::fflush(stdout);
  }
  return failures;
}

}  // namespace

// grids PRECISION [CASE]
int main(int argc, char** argv) {
  const MpiSession session;
  try {
    const int failures = check_cases(session, argc > 1 ? argv[1] : "fp64", argc > 2 ? std::atoi(argv[2]) : -1);
    return session.any(failures > 0) ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
