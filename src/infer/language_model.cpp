// Legend: T tokens of one pass, V vocabulary.
#include "trireme/infer/language_model.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::size_t k_unlimited = std::size_t{1} << 60;

// The deck with room for `capacity` positions: rotary ones can go on, a learned table cannot.
ModelDeck with_capacity(ModelDeck deck, std::int64_t capacity) {
  if (capacity > deck.sequence && deck.position == "learned")
    throw Error(Exit::usage, "a text of " + std::to_string(capacity) + " tokens is longer than the " +
                                 std::to_string(deck.sequence) +
                                 " learned positions of this model: ask for fewer tokens or give a shorter prompt");
  if (deck.position != "learned") deck.sequence = std::max(capacity, deck.sequence);
  return deck;
}

ParamStoreOptions store_options(DType compute) {
  ParamStoreOptions options;
  options.compute = compute;
  options.gradients = accumulator_of(compute);
  options.sequence_parallel = false;
  options.holds = Holds::values;
  return options;
}

}  // namespace

LanguageModel::LanguageModel(const ModelDeck& deck, DType compute, const ProcessGrid& grid, Backend& backend,
                             DeviceKind kind, const ModelMemory& memory)
    : LanguageModel(deck, compute, grid, backend, memory, plan(deck, compute, grid.here(), kind, memory)) {}

LanguageModel::LanguageModel(const ModelDeck& deck, DType compute, const ProcessGrid& grid, Backend& backend,
                             const ModelMemory& memory, const Sizes& sizes)
    : deck_(with_capacity(deck, memory.capacity)),
      compute_(compute),
      grid_(grid),
      backend_(backend),
      memory_(memory),
      model_(deck_),
      persistent_(backend, "weights and cache", sizes.persistent),
      scratch_(backend, "scratch", sizes.scratch),
      stage_(model_, {0, deck_.layers}, true, true, Recompute::block),  // block: keeps nothing for a backward pass
      slot_{Arena(backend, "activations", sizes.keep), {}, {}},
      lengths_(static_cast<std::size_t>(memory.slots), 0) {
  require(memory.logit_rows >= memory.slots, "room for a row of logits per slot");
  const Partition whole = make_partition(static_cast<int>(deck_.layers), 1, 1, {});
  params_ = std::make_unique<ParamStore>(model_.table(), grid.here(), whole, store_options(compute), persistent_);
  take_tables();
}

LanguageModel::~LanguageModel() = default;

void LanguageModel::take_tables() {
  const std::int64_t kv_heads = cut(deck_.kv_heads, grid_.here().n(Axis::tp), grid_.here().at(Axis::tp)).count();
  cache_.capacity = memory_.capacity;
  for (std::int64_t layer = 0; layer < deck_.layers; ++layer) {
    const Shape shape{memory_.slots * memory_.capacity, 2 * kv_heads * deck_.head_dim};
    cache_.layers.push_back(persistent_.take(compute_, shape));
  }
  ids_ = persistent_.take(DType::i32, {memory_.pass});
  positions_ = persistent_.take(DType::i32, {memory_.pass});
  if (deck_.position != "rope") return;
  const DType acc = accumulator_of(compute_);
  rope_ = persistent_.take(acc, {deck_.sequence, rope_pairs(deck_), 2});
  const std::vector<double> table = rope_table(deck_);
  const std::vector<float> narrow(table.begin(), table.end());
  backend_.to_device(rope_, acc == DType::f64 ? static_cast<const void*>(table.data()) : narrow.data());
}

// What it needs is found by doing it on a backend that computes nothing.
LanguageModel::Sizes LanguageModel::plan(const ModelDeck& deck, DType compute, const GridPoint& here, DeviceKind kind,
                                         const ModelMemory& memory) {
  const std::unique_ptr<Backend> backend = make_plan_backend(kind);
  const ProcessGrid grid = ProcessGrid::planned(here);
  LanguageModel model(deck, compute, grid, *backend, memory, {k_unlimited, k_unlimited, k_unlimited});
  std::vector<std::int64_t> slots(static_cast<std::size_t>(std::min(memory.slots, memory.pass)));
  std::iota(slots.begin(), slots.end(), 0);
  model.pass(slots, std::vector<std::int32_t>(slots.size(), 0), LogitRows::last, Cache::used);
  const std::int64_t n = std::min(memory.pass, memory.capacity);
  model.forget(0);
  model.pass(std::vector<std::int64_t>{0}, std::vector<std::int32_t>(static_cast<std::size_t>(n), 0), LogitRows::last,
             Cache::used);
  const auto rows = static_cast<std::size_t>(std::min(n, memory.logit_rows));
  model.forget(0);
  model.pass(std::vector<std::int64_t>{0}, std::vector<std::int32_t>(rows, 0), LogitRows::all, Cache::bypassed);
  return {model.persistent_.peak(), model.scratch_.peak(), model.slot_.keep.peak()};
}

std::size_t LanguageModel::bytes() const {
  return persistent_.capacity() + scratch_.capacity() + slot_.keep.capacity();
}

std::vector<double> LanguageModel::pass(std::span<const std::int64_t> slots, std::span<const std::int32_t> ids,
                                        LogitRows rows, Cache cache) {
  const auto n = std::ssize(slots), T = std::ssize(ids), per = div_exact(T, n);
  require(n >= 1 && per >= 1 && T <= memory_.pass, "a pass takes at most the planned tokens");
  require(rows == LogitRows::all || per == 1 || n == 1, "last rows of several sequences with one new token each");
  std::vector<std::int32_t> positions;
  cache_.sequences.clear();
  for (const std::int64_t slot : slots) {
    const std::int64_t before = cache == Cache::used ? length(slot) : 0;
    for (std::int64_t i = 0; i < per; ++i) positions.push_back(static_cast<std::int32_t>(before + i));
    cache_.sequences.push_back({slot, before});
    if (cache == Cache::used) lengths_[static_cast<std::size_t>(slot)] += per;
  }
  MicroBatch mb{n, ids_.slice_rows(0, T), Tensor{}, positions_.slice_rows(0, T), Tensor{}, Tensor{}};
  backend_.to_device(mb.ids_T, ids.data());
  backend_.to_device(mb.position_T, positions.data());
  Context c{backend_, grid_, *params_, scratch_, compute_, false, 0, 0, 0, Into::add, rope_, nullptr};
  if (cache == Cache::used) c.cache = &cache_;
  Tensor y = stage_.forward(c, mb, Tensor{}, slot_);
  if (rows == LogitRows::last && per > 1) {
    y = y.slice_rows(T - 1, 1);
    mb.position_T = mb.position_T.slice_rows(T - 1, 1);
  }
  return logits_of(c, mb, y);
}

// Every rank has the logits of a part of the vocabulary; the sum of rows that are zero elsewhere is the whole.
std::vector<double> LanguageModel::logits_of(Context& c, const MicroBatch& mb, Tensor x) {
  const std::int64_t n = x.rows(), padded = padded_vocab(deck_);
  const Box& mine = params_->at(model_.head().weight()).box;
  const Tensor part = slot_.keep.take(compute_, {n, mine.extent[0]});
  const Tensor all = slot_.keep.take(c.acc(), {n, padded});
  model_.head().logits(c, mb, part, x);
  backend_.fill(all, 0);
  backend_.copy(all.slice_columns(mine.offset[0], mine.extent[0]), part);
  grid_.along(Axis::tp).all_reduce(all, Reduce::sum);
  std::vector<double> wide(all.dtype == DType::f64 ? static_cast<std::size_t>(all.count()) : 0);
  std::vector<float> narrow(all.dtype == DType::f32 ? static_cast<std::size_t>(all.count()) : 0);
  backend_.to_host(all.dtype == DType::f64 ? static_cast<void*>(wide.data()) : narrow.data(), all);
  std::vector<double> logits;
  logits.reserve(static_cast<std::size_t>(n * deck_.vocab));
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t v = 0; v < deck_.vocab; ++v) {
      const auto at = static_cast<std::size_t>(row * padded + v);
      logits.push_back(wide.empty() ? static_cast<double>(narrow[at]) : wide[at]);
    }
  }
  return logits;
}

}  // namespace trireme
