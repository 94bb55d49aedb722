// Rules between the process grid, the network it cuts and the batch it shares out.

#include <algorithm>

#include "contradictions.h"
#include "print.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// Ranks of one replica.
std::int64_t replica(const ParallelDeck& p) {
  return p.tensor * p.pipeline * p.context;
}

// Replicas as far as they are known; 0: not.
std::int64_t n_replicas(const ParallelDeck& p, int n_ranks) {
  return p.data > 0 ? p.data : n_ranks / replica(p);
}

void check_ranks(const ParallelDeck& p, int n_ranks, Contradictions& list) {
  if (n_ranks == 0) return;
  const std::string product = setting("parallel.tensor", p.tensor) + " * " + setting("pipeline", p.pipeline) + " * " +
                              setting("context", p.context);
  const std::string job =
      " the " + text_of(std::int64_t{n_ranks}) + (n_ranks == 1 ? " rank" : " ranks") + " of this job";
  const std::vector<std::string> keys{"parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.data"};
  if (n_ranks % replica(p) != 0) {
    list.push_back({keys, product + " is " + text_of(replica(p)) + ", which does not divide" + job});
  } else if (p.data > 0 && p.data != n_ranks / replica(p)) {
    list.push_back({keys, product + " * " + setting("data", p.data) + " is " + text_of(replica(p) * p.data) + ", not" +
                              job + ": set parallel.data = 0 to use them all, or start that many ranks"});
  }
}

void check_tensor_cuts(const Deck& deck, Contradictions& list) {
  const ModelDeck& m = deck.model;
  const std::int64_t tp = deck.parallel.tensor;
  const std::string below = " is below " + setting("parallel.tensor", tp) + ": ";
  const std::int64_t kv_heads = m.kv_heads > 0 ? m.kv_heads : m.heads, vocab = round_up(m.vocab, m.vocab_multiple);
  if (kv_heads < tp) {
    list.push_back(
        {{"model.kv_heads", "model.heads", "parallel.tensor"},
         setting("model.kv_heads", kv_heads) + below + "every tensor rank needs a key/value head of its own"});
  }
  if (vocab < tp) {
    list.push_back({{"model.vocab", "model.vocab_multiple", "parallel.tensor"},
                    setting("model.vocab", m.vocab) + ", padded to " + text_of(vocab) + "," + below +
                        "every tensor rank needs a token"});
  }
  if (m.ffn > 0 && m.ffn < tp) {
    list.push_back({{"model.ffn", "parallel.tensor"},
                    setting("model.ffn", m.ffn) + below + "every tensor rank needs a feed-forward feature"});
  }
}

void check_sequence_cuts(const Deck& deck, Contradictions& list) {
  const ParallelDeck& p = deck.parallel;
  const std::int64_t s = deck.model.sequence, tokens = deck.batch.micro * s;
  if (p.context > 1 && s % (2 * p.context) != 0) {
    list.push_back({{"model.sequence", "parallel.context"},
                    setting("model.sequence", s) + " is not divisible by " + text_of(2 * p.context) + ", twice " +
                        setting("parallel.context", p.context) + ": every rank takes one early and one late chunk"});
    return;
  }
  if (p.sequence && p.tensor > 1 && tokens / p.context % p.tensor != 0) {
    list.push_back({{"batch.micro", "model.sequence", "parallel.context", "parallel.tensor", "parallel.sequence"},
                    setting("batch.micro", deck.batch.micro) + " * " + setting("model.sequence", s) + " / " +
                        setting("parallel.context", p.context) + " is " + text_of(tokens / p.context) +
                        " tokens, not divisible by " + setting("parallel.tensor", p.tensor) +
                        ", as parallel.sequence = true asks"});
  }
}

void check_stage_layers(const Deck& deck, Contradictions& list) {
  const std::vector<std::int64_t>& layers = deck.parallel.stage_layers;
  const std::int64_t chunks = deck.parallel.pipeline * deck.parallel.virtual_stages;
  if (static_cast<std::int64_t>(layers.size()) != chunks) {
    list.push_back({{"parallel.stage_layers", "parallel.pipeline", "parallel.virtual_stages"},
                    "parallel.stage_layers has " + text_of(static_cast<std::int64_t>(layers.size())) +
                        " entries, expected pipeline * virtual_stages = " + text_of(chunks)});
    return;
  }
  std::int64_t sum = 0;
  for (const std::int64_t n : layers) {
    if (n < 1 || n > deck.model.layers) {
      list.push_back({{"parallel.stage_layers", "model.layers"},
                      "parallel.stage_layers holds " + text_of(n) + ": every chunk needs at least 1 and at most " +
                          setting("model.layers", deck.model.layers)});
      return;
    }
    sum += n;
  }
  if (sum != deck.model.layers) {
    list.push_back(
        {{"parallel.stage_layers", "model.layers"},
         "parallel.stage_layers sums to " + text_of(sum) + ", expected " + setting("model.layers", deck.model.layers)});
  }
}

void check_stage_recompute(const ParallelDeck& p, Contradictions& list) {
  static const Limit<std::string> known = one_of({"none", "light", "attention", "block"});
  const auto chunks = p.pipeline * p.virtual_stages, n = static_cast<std::int64_t>(p.stage_recompute.size());
  if (n == 0) return;
  if (n != chunks) {
    list.push_back({{"parallel.stage_recompute", "parallel.pipeline", "parallel.virtual_stages"},
                    "parallel.stage_recompute has " + text_of(n) +
                        " entries, expected pipeline * virtual_stages = " + text_of(chunks)});
  }
  for (const std::string& mode : p.stage_recompute) {
    if (known.holds(mode)) continue;
    list.push_back(
        {{"parallel.stage_recompute"}, "parallel.stage_recompute holds " + text_of(mode) + ", expected " + known.text});
  }
}

void check_pipeline(const Deck& deck, Contradictions& list) {
  const ParallelDeck& p = deck.parallel;
  const std::int64_t chunks = p.pipeline * p.virtual_stages;
  check_stage_recompute(p, list);
  if (!p.stage_layers.empty()) {
    check_stage_layers(deck, list);
  } else if (deck.model.layers < chunks) {
    list.push_back({{"model.layers", "parallel.pipeline", "parallel.virtual_stages"},
                    setting("model.layers", deck.model.layers) +
                        " is below pipeline * virtual_stages = " + text_of(chunks) + ": every chunk needs a layer"});
  }
  if (p.virtual_stages > 1 && p.pipeline == 1) {
    list.push_back({{"parallel.virtual_stages", "parallel.pipeline"},
                    setting("parallel.virtual_stages", p.virtual_stages) + " needs parallel.pipeline above 1"});
  }
  if (p.virtual_stages > 1 && p.schedule != "1f1b") {
    list.push_back({{"parallel.virtual_stages", "parallel.schedule"},
                    setting("parallel.virtual_stages", p.virtual_stages) +
                        " needs parallel.schedule = \"1f1b\", found " + text_of(p.schedule)});
  }
}

// One batch size of a run: batch.global, or a step of its ramp.
struct BatchRule {
  std::string name;  // "batch.global = 30"
  std::vector<std::string> keys;
  std::int64_t size;
};

void check_batch_size(const Deck& deck, std::int64_t replicas, BatchRule rule, Contradictions& list) {
  const ParallelDeck& p = deck.parallel;
  const std::int64_t known = std::max<std::int64_t>(replicas, 1), group = deck.batch.micro * known;
  rule.keys.insert(rule.keys.end(), {"batch.micro", "parallel.data", "parallel.pipeline", "parallel.virtual_stages"});
  if (rule.size % group != 0) {
    const std::string by = replicas > 0 ? " * " + text_of(replicas) + (replicas == 1 ? " replica" : " replicas") : "";
    list.push_back({rule.keys, rule.name + " is not divisible by " + setting("batch.micro", deck.batch.micro) + by});
  } else if (p.virtual_stages > 1 && replicas > 0 && rule.size / group % p.pipeline != 0) {
    list.push_back({rule.keys, rule.name + " gives " + text_of(rule.size / group) +
                                   " micro-batches per replica, which the interleaved schedule of " +
                                   setting("parallel.virtual_stages", p.virtual_stages) + " needs to be divisible by " +
                                   setting("parallel.pipeline", p.pipeline)});
  }
}

void check_ramp(const Deck& deck, std::int64_t replicas, Contradictions& list) {
  const BatchDeck& b = deck.batch;
  const std::vector<std::string> keys{"batch.ramp_start", "batch.ramp_step", "batch.ramp_tokens", "batch.global"};
  const bool all = b.ramp_start > 0 && b.ramp_step > 0 && b.ramp_tokens > 0;
  const bool none = b.ramp_start == 0 && b.ramp_step == 0 && b.ramp_tokens == 0;
  if (!all && !none) {
    list.push_back({keys, "a batch ramp needs all of " + setting("batch.ramp_start", b.ramp_start) + ", " +
                              setting("ramp_step", b.ramp_step) + " and " + setting("ramp_tokens", b.ramp_tokens) +
                              " above 0 (all 0: no ramp)"});
  }
  if (!all) return;
  if (b.ramp_start > b.global || (b.global - b.ramp_start) % b.ramp_step != 0) {
    list.push_back({keys, setting("batch.ramp_start", b.ramp_start) + " does not reach " +
                              setting("batch.global", b.global) + " in steps of " +
                              setting("batch.ramp_step", b.ramp_step)});
  }
  check_batch_size(deck, replicas, {setting("batch.ramp_start", b.ramp_start), {"batch.ramp_start"}, b.ramp_start},
                   list);
  check_batch_size(deck, replicas, {setting("batch.ramp_step", b.ramp_step), {"batch.ramp_step"}, b.ramp_step}, list);
}

}  // namespace

void check_grid(const Deck& deck, int n_ranks, Contradictions& list) {
  check_ranks(deck.parallel, n_ranks, list);
  check_tensor_cuts(deck, list);
  check_sequence_cuts(deck, list);
  check_pipeline(deck, list);
}

void check_batch(const Deck& deck, int n_ranks, Contradictions& list) {
  const std::int64_t replicas = n_replicas(deck.parallel, n_ranks);
  check_batch_size(deck, replicas, {setting("batch.global", deck.batch.global), {"batch.global"}, deck.batch.global},
                   list);
  check_ramp(deck, replicas, list);
}

}  // namespace trireme
