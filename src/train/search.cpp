// Legend: a layout is a grid (tp, pp, cp, dp), chunks of layers per stage, a micro-batch and a way to recompute.
#include "trireme/train/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/deck/read.h"
#include "trireme/model/embedding.h"

namespace trireme {

namespace {

constexpr std::int64_t k_least_slice = 2048;  // tokens that a cp rank keeps of a sequence
const std::vector<std::string> k_recompute = {"none", "light", "attention",
                                              "block"};  // each slower than the one before

struct Grid {
  std::int64_t tensor = 1, pipeline = 1, context = 1, data = 1, chunks = 1;
  std::vector<std::int64_t> stage_layers;  // empty: as even as possible
};

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(d);
  }
  return list;
}

// Messages that differ in numbers only are one reason.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) out += c;
    if (digit && (out.empty() || out.back() != 'N')) out += 'N';
  }
  return out;
}

class Search {
 public:
  Search(const Deck& deck, const Machine& machine, const SearchSettings& settings)
      : deck_(deck), machine_(machine), settings_(settings), model_(deck.model) {}

  SearchResult run() {
    list_grids();
    Cost(machine_, deck_.precision.compute);  // what the table lacks is said before threads start
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    const unsigned n = std::max(1U, std::min(std::thread::hardware_concurrency(), 16U));
    for (unsigned i = 0; i < n; ++i) {
      threads.emplace_back([&] {
        const Cost cost(machine_, deck_.precision.compute);
        for (std::size_t at = next++; at < grids_.size(); at = next++) guarded(grids_[at], cost);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (problem_) std::rethrow_exception(problem_);
    std::sort(result_.layouts.begin(), result_.layouts.end(), [](const FoundLayout& a, const FoundLayout& b) {
      const double ta = a.prediction.step, tb = b.prediction.step;
      return ta != tb ? ta < tb : a.overrides < b.overrides;
    });
    return std::move(result_);
  }

 private:
  void list_grids();
  void list_pipelines(Grid grid);
  void guarded(const Grid& grid, const Cost& cost);
  void try_grid(const Grid& grid, const Cost& cost);
  bool try_micro(const Grid& grid, std::int64_t micro, const Cost& cost);
  Deck with(const Grid& grid, std::int64_t micro, const std::string& recompute) const;
  std::vector<std::string> overrides_of(const Deck& deck) const;
  std::vector<std::int64_t> balanced(std::int64_t n_chunks) const;

  // A key that was stated on the command line keeps its value.
  bool allows(const char* key, std::int64_t stated, std::int64_t value) const {
    return settings_.fixed.count(key) == 0 || stated == value;
  }

  void fail(const std::string& reason) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++result_.n_looked_at;
    ++result_.failed[reason];
  }

  const Deck& deck_;
  const Machine& machine_;
  const SearchSettings& settings_;
  const Model model_;
  std::vector<Grid> grids_;
  std::mutex mutex_;  // of what follows
  SearchResult result_;
  std::exception_ptr problem_;
};

// Layers per chunk when the head, which works as much as V / (its FLOPs per layer) layers, is counted as layers of the
// last chunk. Empty when that is the even cut.
std::vector<std::int64_t> Search::balanced(std::int64_t n_chunks) const {
  const ModelDeck& m = model_.deck();
  const double head = static_cast<double>(padded_vocab(m) * m.hidden);
  const double layer = static_cast<double>(model_.n_flop_params() - m.vocab * m.hidden) / static_cast<double>(m.layers);
  const double share = (static_cast<double>(m.layers) + head / layer) / static_cast<double>(n_chunks);
  const auto last = std::max<std::int64_t>(1, std::llround(share - head / layer));
  const Partition even = make_partition(static_cast<int>(m.layers), 1, static_cast<int>(n_chunks), {});
  if (n_chunks < 2 || last == even.layers(0, static_cast<int>(n_chunks) - 1).count()) return {};
  std::vector<std::int64_t> counts;
  const std::int64_t others = n_chunks - 1, rest = m.layers - last;
  for (std::int64_t i = 0; i < others; ++i) counts.push_back(rest / others + (i < rest % others ? 1 : 0));
  counts.push_back(last);
  return counts;
}

void Search::list_grids() {
  const ModelDeck& m = model_.deck();
  const std::int64_t n = settings_.n_ranks;
  for (const std::int64_t tp : divisors(n)) {
    if (tp > m.heads) break;
    if (!allows("parallel.tensor", deck_.parallel.tensor, tp)) continue;
    Grid grid;
    grid.tensor = tp;
    if (m.heads % tp != 0 || m.kv_heads % tp != 0) {
      fail(format("tensor ranks do not divide %lld heads and %lld key/value heads", static_cast<long long>(m.heads),
                  static_cast<long long>(m.kv_heads)));
      continue;
    }
    if (settings_.tensor_across_nodes == TensorAcrossNodes::never && machine_.gpus_per_node % tp != 0) {
      fail("tensor parallelism would leave the node (--tensor-across-nodes allows it)");
      continue;
    }
    for (const std::int64_t cp : divisors(n / tp)) {
      if (!allows("parallel.context", deck_.parallel.context, cp)) continue;
      if (m.sequence % (2 * cp) != 0 || (cp > 1 && m.sequence / cp < k_least_slice)) {
        if (cp <= 16) fail("context parallelism would leave less than 2048 tokens of a sequence");
        continue;
      }
      grid.context = cp;
      list_pipelines(grid);
    }
  }
}

void Search::list_pipelines(Grid grid) {
  const std::int64_t layers = model_.deck().layers, n = settings_.n_ranks;
  for (const std::int64_t pp : divisors(n / (grid.tensor * grid.context))) {
    if (!allows("parallel.pipeline", deck_.parallel.pipeline, pp)) continue;
    if (pp > layers) {
      fail("more stages than layers");
      continue;
    }
    grid.pipeline = pp;
    grid.data = n / (grid.tensor * grid.context * pp);
    if (!allows("parallel.data", deck_.parallel.data, grid.data)) continue;
    if (deck_.batch.global % grid.data != 0) {
      fail("the replicas do not divide batch.global");
      continue;
    }
    for (const std::int64_t chunks : {1, 2, 3, 4, 6, 8}) {
      if (!allows("parallel.virtual_stages", deck_.parallel.virtual_stages, chunks)) continue;
      if (chunks > 1 && (pp == 1 || layers < pp * chunks || deck_.parallel.schedule != "1f1b")) continue;
      grid.chunks = chunks;
      const bool stated = settings_.fixed.count("parallel.stage_layers") > 0;
      grid.stage_layers = stated ? deck_.parallel.stage_layers : std::vector<std::int64_t>{};
      grids_.push_back(grid);
      grid.stage_layers = stated ? std::vector<std::int64_t>{} : balanced(pp * chunks);
      if (!grid.stage_layers.empty()) grids_.push_back(grid);
    }
  }
}

Deck Search::with(const Grid& grid, std::int64_t micro, const std::string& recompute) const {
  Deck deck = deck_;
  deck.parallel.tensor = grid.tensor;
  deck.parallel.pipeline = grid.pipeline;
  deck.parallel.context = grid.context;
  deck.parallel.data = grid.data;
  deck.parallel.virtual_stages = grid.chunks;
  deck.parallel.stage_layers = grid.stage_layers;
  deck.parallel.recompute = recompute;
  if (settings_.fixed.count("parallel.stage_recompute") == 0) deck.parallel.stage_recompute.clear();
  deck.batch.micro = micro;
  return deck;
}

std::vector<std::string> Search::overrides_of(const Deck& deck) const {
  const ParallelDeck& p = deck.parallel;
  const auto text = [](const char* key, std::int64_t value) { return std::string(key) + "=" + std::to_string(value); };
  std::vector<std::string> list = {text("parallel.tensor", p.tensor), text("parallel.pipeline", p.pipeline),
                                   text("parallel.context", p.context), text("parallel.data", p.data),
                                   text("parallel.virtual_stages", p.virtual_stages)};
  if (!p.stage_layers.empty() || !deck_.parallel.stage_layers.empty()) {
    std::string counts;
    for (const std::int64_t count : p.stage_layers) counts += (counts.empty() ? "" : ",") + std::to_string(count);
    list.push_back("parallel.stage_layers=[" + counts + "]");
  }
  list.push_back("parallel.recompute=" + p.recompute);
  if (p.stage_recompute.empty() && !deck_.parallel.stage_recompute.empty())
    list.push_back("parallel.stage_recompute=[]");
  list.push_back(text("batch.micro", deck.batch.micro));
  return list;
}

void Search::guarded(const Grid& grid, const Cost& cost) {
  try {
    try_grid(grid, cost);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!problem_) problem_ = std::current_exception();
  }
}

void Search::try_grid(const Grid& grid, const Cost& cost) {
  const std::int64_t sequences = deck_.batch.global / grid.data;
  for (const std::int64_t micro : divisors(sequences)) {
    if (!allows("batch.micro", deck_.batch.micro, micro)) continue;
    if (micro > 64 && settings_.fixed.count("batch.micro") == 0) break;
    const std::int64_t n_micro = sequences / micro;
    if (n_micro < grid.pipeline) {
      fail("fewer micro-batches than stages");
      continue;
    }
    if (grid.chunks > 1 && n_micro % grid.pipeline != 0) {
      fail("interleaving needs a multiple of the stages in micro-batches");
      continue;
    }
    if (!try_micro(grid, micro, cost)) break;  // larger ones need more
  }
}

// True when some way to recompute fits. More recomputation than needed only costs time, so the first that fits is it.
bool Search::try_micro(const Grid& grid, std::int64_t micro, const Cost& cost) {
  const std::array<int, k_n_axes> size{static_cast<int>(grid.pipeline), static_cast<int>(grid.data),
                                       static_cast<int>(grid.context), static_cast<int>(grid.tensor)};
  for (const std::string& recompute : k_recompute) {
    if (settings_.fixed.count("parallel.recompute") > 0 && recompute != deck_.parallel.recompute) continue;
    const Deck deck = with(grid, micro, recompute);
    const std::vector<std::string> against = contradictions(deck, settings_.n_ranks);
    if (!against.empty()) {
      fail("rules of the deck: " + without_numbers(against.front()));
      return true;
    }
    const Prediction prediction = predict(deck, model_, size, settings_.kind, cost, machine_.memory);
    if (prediction.memory <= machine_.memory) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++result_.n_looked_at;
      result_.layouts.push_back({overrides_of(deck), deck, size, prediction});
      return true;
    }
    const std::string item = prediction.largest.substr(0, prediction.largest.find(','));
    const bool first = prediction.fullest == 0, last = prediction.fullest + 1 == size[0];
    fail(std::string("out of memory on ") +
         (size[0] == 1 ? "every rank"
          : first      ? "the first stage"
          : last       ? "the last stage"
                       : "a stage between") +
         ", most of it " + item);
  }
  return false;
}

}  // namespace

SearchResult search_layouts(const Deck& deck, const Machine& machine, const SearchSettings& settings) {
  return Search(deck, machine, settings).run();
}

}  // namespace trireme
