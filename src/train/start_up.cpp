#include "trireme/train/start_up.h"

#include <algorithm>
#include <optional>

#include "trireme/base/check.h"
#include "trireme/base/version.h"
#include "trireme/train/fp8_weights.h"

namespace trireme {

LogLevel log_level_from(const std::string& name) {
  if (name == "error") return LogLevel::error;
  if (name == "warning") return LogLevel::warning;
  if (name == "debug") return LogLevel::debug;
  require(name == "info", "unknown log level " + name);
  return LogLevel::info;
}

namespace {

std::string model_lines(const Deck& deck, const Model& model, const GridPoint& here) {
  const ModelDeck& m = model.deck();
  std::string text =
      format("model       %s parameters: %lld layers of %lld, %lld heads of %lld",
             count_text(static_cast<double>(model.table().n_elements())).c_str(), static_cast<long long>(m.layers),
             static_cast<long long>(m.hidden), static_cast<long long>(m.heads), static_cast<long long>(m.head_dim));
  if (m.kv_heads != m.heads) text += format(" (%lld for keys and values)", static_cast<long long>(m.kv_heads));
  text += format(", ffn %lld, %s norm, %s, %s positions\n", static_cast<long long>(m.ffn), m.norm.c_str(),
                 m.activation.c_str(), m.position.c_str());
  text += format("            vocabulary %lld padded to %lld, %s; sequence %lld", static_cast<long long>(m.vocab),
                 static_cast<long long>(padded_vocab(m)), m.tie_embeddings ? "tied" : "untied",
                 static_cast<long long>(m.sequence));
  if (m.window > 0) text += format(", window %lld", static_cast<long long>(m.window));
  if (m.parallel_residual) text += ", parallel residual";
  if (deck.data.mask_documents) text += "\n            attention stays inside each document";
  if (deck.data.reset_positions) text += "\n            positions count from the beginning of each document";
  text += format("\nprecision   %s, optimizer %s\n", deck.precision.compute.c_str(), deck.precision.optimizer.c_str());
  return text + fp8_lines(deck, model, here);
}

std::string grid_lines(const Deck& deck, const RankPlan& plan, int n_ranks) {
  const GridPoint& here = plan.here;
  const std::int64_t n_micro = deck.batch.global / (deck.batch.micro * here.n(Axis::dp));
  std::string text = format(
      "grid        %d rank%s = %s; sequence parallelism %s, optimizer %s\n", n_ranks, n_ranks == 1 ? "" : "s",
      to_string(here).c_str(), deck.parallel.sequence && here.n(Axis::tp) > 1 ? "on" : "off",
      deck.parallel.zero && here.n(Axis::dp) * here.n(Axis::cp) > 1 ? "sharded over replicas (ZeRO-1)" : "whole");
  text += format("batch       %lld sequences = %d replicas * %lld micro-batches * %lld; %s tokens per step\n",
                 static_cast<long long>(deck.batch.global), here.n(Axis::dp), static_cast<long long>(n_micro),
                 static_cast<long long>(deck.batch.micro),
                 count_text(static_cast<double>(deck.batch.global * deck.model.sequence)).c_str());
  const int p = here.n(Axis::pp), v = static_cast<int>(deck.parallel.virtual_stages);
  if (p > 1) {
    text += format("schedule    %s%s, bubble %.1f %%; layers of rank 0:", deck.parallel.schedule.c_str(),
                   v > 1 ? " interleaved" : "",
                   100.0 * (p - 1) / (static_cast<double>(v) * static_cast<double>(n_micro) + p - 1));
    for (const Range& layers : plan.layers) {
      text += format(" %lld-%lld", static_cast<long long>(layers.first), static_cast<long long>(layers.last - 1));
    }
    text += "\n";
  }
  text += "recompute  ";
  const std::int64_t chunks = deck.parallel.stage_recompute.empty() ? 1 : p * v;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) text += " " + deck.parallel.recompute_of(chunk);
  return text + "\n";
}

std::string memory_lines(const RankPlan& plan) {
  std::string text = format("memory      %s per rank (rank 0):", bytes_text(static_cast<double>(plan.total())).c_str());
  for (const auto& [purpose, bytes] : plan.memory)
    text += "\n            " + format("%10s", bytes_text(static_cast<double>(bytes)).c_str()) + "  " + purpose;
  return text + "\n";
}

}  // namespace

std::string start_up_table(const Deck& deck, const Model& model, const RankPlan& plan, int n_ranks,
                           const std::vector<std::string>& lines) {
  const ModelFlops flops = flops_per_token(model);
  std::string text =
      "Trireme " + version() + " (" + git_revision() + "), run " + deck.run.name + " in " + deck.run.output + "\n";
  text += model_lines(deck, model, plan.here) + grid_lines(deck, plan, n_ranks) + memory_lines(plan);
  text += format("FLOPs       %s per token causal, %s with full attention\n", count_text(flops.causal).c_str(),
                 count_text(flops.full).c_str());
  for (const std::string& line : lines) text += line + "\n";
  text += format("steps       %lld, learning rate %g to %g (%s), clip %g", static_cast<long long>(deck.run.steps),
                 deck.lr.max, deck.lr.min, deck.lr.shape.c_str(), deck.optimizer.clip);
  return text;
}

void check_memory(const RankPlan& plan, const Backend& backend) {
  const std::size_t present = backend.memory_bytes();
  // Without room for a snapshot, saves are synchronous.
  const std::size_t needed = plan.total() - (backend.host_memory() ? plan.snapshot : 0);
  if (present == 0 || needed <= present) return;
  auto items = plan.memory;
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "this rank needs " + bytes_text(static_cast<double>(plan.total())) + " but its device has " +
                     bytes_text(static_cast<double>(present)) + " free. The largest items:";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, items.size()); ++i) {
    text += "\n  " + bytes_text(static_cast<double>(items[i].second)) + "  " + items[i].first;
  }
  throw Error(
      Exit::usage,
      text + "\nLower batch.micro, set parallel.recompute, or use more ranks (parallel.tensor, parallel.pipeline)");
}

bool changes_the_model(const std::string& key) {
  const std::vector<std::string> free = {"model.dropout",           "model.vocab_multiple",
                                         "model.attention_dropout", "model.init_std",
                                         "model.scaled_init",       "model.z_loss",
                                         "model.sequence",          "model.window",
                                         "model.rope_theta",        "model.rope_scaling",
                                         "model.rope_factor",       "model.rope_low_freq",
                                         "model.rope_high_freq",    "model.rope_original_sequence"};
  return key.starts_with("model.") && std::find(free.begin(), free.end(), key) == free.end();
}

namespace {

// The lowest rank where `mine` holds; it holds somewhere.
int lowest(const MpiSession& session, bool mine) {
  int low = 0, high = session.size();  // the answer lies in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    const bool below = session.any(mine && session.rank() < middle);
    (below ? high : low) = middle;
  }
  return low;
}

}  // namespace

void together(const MpiSession& session, const std::function<void()>& work) {
  std::optional<Error> mine;
  try {
    work();
  } catch (const Error& error) {
    mine = error;
  }
  if (!session.any(mine.has_value())) return;
  const bool all = !session.any(!mine.has_value());
  if (mine && all) throw SharedError(mine->code, mine->what());
  if (lowest(session, mine.has_value()) == session.rank()) throw *mine;
  session.any(false);  // waits here to be ended by the rank that speaks
}

void on_rank_0(const MpiSession& session, const std::function<void()>& work) {
  std::int64_t code = 0;
  std::string problem;
  if (session.rank() == 0) {
    try {
      work();
    } catch (const Error& error) {
      code = static_cast<std::int64_t>(error.code);
      problem = error.what();
    }
  }
  code = session.largest(code);
  if (code != 0) throw SharedError(static_cast<Exit>(code), session.broadcast(problem));
}

}  // namespace trireme
