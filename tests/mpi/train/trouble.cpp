// Faults are put into the memory of one rank of a small model, and must be found there: a weight that is not finite, an
// overflow in the forward pass of one micro-batch, a gradient, a flipped bit on one replica. On four ranks.

#include <cstdio>

#include "trireme/comm/process_grid.h"
#include "trireme/data/token_source.h"
#include "trireme/deck/read.h"
#include "trireme/train/batch_feed.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/offender.h"

namespace {

using namespace trireme;

constexpr const char* k_deck = R"(
[model]
layers = 4
hidden = 16
heads = 4
sequence = 16
vocab = 61
vocab_multiple = 4
tie_embeddings = false
[batch]
global = 12
[data]
source = "mock"
[precision]
compute = "fp64"
[device]
kind = "cpu"
threads = 1
)";

// Everything of one case, fresh weights.
struct Lab {
  explicit Lab(const MpiSession& s, const std::vector<std::string>& settings)
      : session(s),
        deck(parse_deck({{"deck", k_deck}}, settings, s.size())),
        model(deck.model),
        job(make_job(deck, s, nullptr)),
        data(open_tokens(deck.data, deck.model.vocab, deck.model.sequence, 1)),
        feed(deck, job.grid->here(), data.training.get(), job.control.get()),
        engine(deck, model, *job.grid, *job.backend, plan_rank(deck, model, job.grid->here(), job.kind).sizes,
               Wires::real),
        batch(feed.read(0, deck.batch.global)) {
    engine.initialise();
  }
  double* weight(const std::string& name) {  // null where this rank does not hold it
    const ParamTable& table = engine.params().table();
    for (ParamId id = 0; id < table.size(); ++id) {
      if (table[id].name == name && engine.params().holds(id)) {
        return reinterpret_cast<double*>(engine.params().at(id).value.data);
      }
    }
    return nullptr;
  }
  std::string offender(double loss_scale) {
    UpdateSettings settings;
    settings.loss_scale = loss_scale;
    return first_offender(engine, *job.backend, session, batch, settings);
  }

  const MpiSession& session;
  Deck deck;
  Model model;
  Job job;
  TokenSplit data;
  BatchFeed feed;
  Engine engine;
  HostBatch batch;
};

int failures = 0;

void expect(const Lab& lab, const std::string& name, const std::string& found, const std::vector<std::string>& texts) {
  bool good = true;
  for (const std::string& text : texts) good = good && found.find(text) != std::string::npos;
  if (texts.empty()) good = found.empty();
  failures += good ? 0 : 1;
  if (lab.session.rank() == 0) std::printf("%s %-40s %s\n", good ? "ok  " : "FAIL", name.c_str(), found.c_str());
}

void replicas(const MpiSession& session) {
  Lab lab(session, {"parallel.data=4"});
  const auto compare = [&] { return differing_replicas(lab.engine, *lab.job.grid, session, *lab.job.backend); };
  expect(lab, "equal replicas", compare(), {});
  if (session.rank() == 2) *reinterpret_cast<std::uint64_t*>(lab.weight("block.2.mlp.down.weight") + 5) ^= 1;
  expect(lab, "lowest bit of one weight on one replica", compare(),
         {"block.2.mlp.down.weight", "layer 2", "on rank 2 "});
  Lab two(session, {"parallel.data=2", "parallel.tensor=2"});
  if (session.rank() == 1) *two.weight("block.0.norm1.gain") += 1e-16 + 1e-9;
  expect(two, "two replicas", differing_replicas(two.engine, *two.job.grid, session, *two.job.backend),
         {"block.0.norm1.gain", "cannot be told"});
}

void numbers(const MpiSession& session) {
  Lab nan(session, {"parallel.tensor=2", "parallel.pipeline=2"});
  if (session.rank() == 3) *nan.weight("block.3.attn.out.weight") = std::nan("");
  expect(nan, "a weight", nan.offender(1), {"the weight block.3.attn.out.weight (layer 3)", "rank 3 "});

  Lab none(session, {"parallel.tensor=2", "parallel.pipeline=2"});
  expect(none, "nothing", none.offender(1), {"nothing"});

  Lab gradient(session, {"parallel.data=2", "parallel.pipeline=2"});
  expect(gradient, "gradients that overflow", gradient.offender(1e308 * 1e2), {"the gradient of", "micro-batch 0"});

  // An embedding row so large that the token overflows the forward pass; only one micro-batch holds the token.
  Lab row(session, {"parallel.data=4"});
  const int T = 16;
  if (session.rank() == 1) {
    for (auto& id : row.batch.ids) id = id == 7 ? 8 : id;
    row.batch.ids[static_cast<std::size_t>(2 * T + 3)] = 7;
  } else {
    for (auto& id : row.batch.ids) id = id == 7 ? 8 : id;
  }
  for (int c = 0; c < 16; ++c) row.weight("embedding.token.weight")[7 * 16 + c] = 1e308;
  expect(row, "a token of one micro-batch", row.offender(1), {"rank 1 ", "micro-batch 2"});
}

}  // namespace

int main() {
  const MpiSession session;
  try {
    replicas(session);
    numbers(session);
    return session.any(failures > 0) ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
