#include "trireme/train/offender.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

// What a rank found, packed so that the larger number is the earlier cause: weights before losses before gradients;
// among gradients the one nearest to the loss, where backward begins, among weights the one nearest to the input; then
// the lowest rank. What one rank spoils reaches the ranks that share the layer at its next operation with them, so the
// parameter counts before the rank.
enum class Place : std::int64_t { nothing = 0, gradient = 1, loss = 2, weight = 3 };
constexpr std::int64_t k_ranks = 1 << 20, k_params = 1 << 20, k_layers = 1 << 16;

std::int64_t packed(Place place, std::int64_t order, int rank, ParamId id) {
  const std::int64_t turn = place == Place::gradient ? id : k_params - 1 - id;
  return ((static_cast<std::int64_t>(place) * k_layers + order) * k_params + turn) * k_ranks + (k_ranks - 1 - rank);
}

// Layers in the order of backward: what comes after the blocks first.
std::int64_t order_of(const ParamSpec& spec) {
  if (spec.layer == k_first_layer || spec.layer == k_both_ends) return 1;
  return spec.layer == k_last_layer ? k_layers - 1 : spec.layer + 2;
}

template <class Word>
bool any_all_ones(const std::vector<std::byte>& bytes, Word exponent) {
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof(Word));
    if ((word & exponent) == exponent) return true;
  }
  return false;
}

// Infinities and NaN are the numbers whose exponent is all ones. (Sums would overflow where values do not.)
bool finite(Backend& backend, Tensor x) {
  std::vector<std::byte> bytes(x.bytes());
  if (bytes.empty()) return true;
  backend.to_host(bytes.data(), x);
  if (x.dtype == DType::f64) return !any_all_ones<std::uint64_t>(bytes, 0x7FF0000000000000U);
  if (x.dtype == DType::f32) return !any_all_ones<std::uint32_t>(bytes, 0x7F800000U);
  return !any_all_ones<std::uint16_t>(bytes, x.dtype == DType::bf16 ? 0x7F80U : 0x7C00U);
}

std::int64_t bad_parts(Engine& engine, Backend& backend, int rank, bool weights) {
  std::int64_t worst = 0;
  for (const Bucket& bucket : engine.params().buckets()) {
    const Tensor all = weights ? bucket.value : bucket.grad;
    for (const BucketPart& part : bucket.parts) {
      if (finite(backend, all.slice_rows(part.offset, part.box.count()))) continue;
      const std::int64_t order = order_of(engine.params().table()[part.id]);
      worst = std::max(worst, packed(weights ? Place::weight : Place::gradient, weights ? k_layers - 1 - order : order,
                                     rank, part.id));
    }
  }
  return worst;
}

HostBatch micro_batch(const HostBatch& batch, int m) {
  HostBatch one = batch;
  one.n_micro = 1;
  const auto cut = [&](auto& values) {
    if (values.empty() || values.size() % static_cast<std::size_t>(batch.n_micro) != 0) return;
    const auto n = static_cast<std::ptrdiff_t>(values.size()) / batch.n_micro;
    values = {values.begin() + m * n, values.begin() + (m + 1) * n};
  };
  cut(one.ids), cut(one.targets), cut(one.doc_starts), cut(one.rows);
  if (one.positions.size() > one.rows.size()) cut(one.positions);
  return one;
}

std::string text_of(const ParamTable& table, const GridPoint& grid, std::int64_t code) {
  const auto rank = static_cast<int>(k_ranks - 1 - code % k_ranks);
  const auto place = static_cast<Place>(code / k_params / k_ranks / k_layers);
  const std::int64_t turn = code / k_ranks % k_params;
  const auto id = static_cast<ParamId>(place == Place::gradient ? turn : k_params - 1 - turn);
  const GridPoint there = point_of(grid.size, rank);
  const std::string where = format(" on rank %d (pp %d, dp %d, cp %d, tp %d)", rank, there.coord[0], there.coord[1],
                                   there.coord[2], there.coord[3]);
  if (place == Place::loss) return "the loss, in the forward pass," + where;
  const ParamSpec& spec = table[id];
  const std::string layer = spec.layer >= 0 && spec.layer < k_last_layer ? format(" (layer %d)", spec.layer) : "";
  return (place == Place::weight ? "the weight " : "the gradient of ") + spec.name + layer + where;
}

}  // namespace

std::string first_offender(Engine& engine, Backend& backend, const MpiSession& session, const HostBatch& batch,
                           const UpdateSettings& settings) {
  const ParamTable& table = engine.params().table();
  const GridPoint& here = engine.params().here();
  const std::int64_t weight = session.largest(bad_parts(engine, backend, session.rank(), true));
  if (weight > 0) return text_of(table, here, weight);
  for (int m = 0; m < batch.n_micro; ++m) {
    const double loss = engine.local_gradients(micro_batch(batch, m), settings);
    std::int64_t mine = bad_parts(engine, backend, session.rank(), false);
    if (!std::isfinite(loss)) mine = packed(Place::loss, 0, session.rank(), 0);
    const std::int64_t worst = session.largest(mine);
    if (worst > 0) return text_of(table, here, worst) + format(", micro-batch %d", m);
  }
  return "nothing: computed again, every number is finite";
}

// --- replicas

namespace {

std::uint64_t hash_of(Backend& backend, Tensor x) {
  std::vector<std::uint64_t> words(x.bytes() / 8 + 1, 0);
  backend.to_host(words.data(), x);
  std::uint64_t hash = 0x9E3779B97F4A7C15U;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9U;
    hash ^= hash >> 32;
  }
  return hash;
}

// The hash of every replica's part, by their rank among the replicas.
std::vector<std::uint64_t> gathered(Communicator& replicas, Backend& backend, std::uint64_t mine) {
  const auto n = static_cast<std::int64_t>(replicas.size());
  std::byte* memory = backend.allocate(static_cast<std::size_t>(n + 1) * sizeof(mine));
  const Tensor all(memory, DType::i64, {n}), own(memory + static_cast<std::size_t>(n) * sizeof(mine), DType::i64, {1});
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(n));
  backend.to_device(own, &mine);
  replicas.all_gather(all, own);
  backend.to_host(hashes.data(), all);
  backend.release(memory);
  return hashes;
}

std::uint64_t most_common(const std::vector<std::uint64_t>& hashes) {
  std::map<std::uint64_t, int> votes;
  for (const std::uint64_t hash : hashes) ++votes[hash];
  return std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

std::string differing_replicas(Engine& engine, const ProcessGrid& grid, const MpiSession& session, Backend& backend) {
  Communicator& replicas = grid.replicas();
  std::int64_t mine = 0;  // what this rank holds and most replicas do not; the first of the table
  bool tie = false;
  if (replicas.size() > 1) {
    for (const Bucket& bucket : engine.params().buckets()) {
      for (const BucketPart& part : bucket.parts) {
        const Tensor value = bucket.value.slice_rows(part.offset, part.box.count());
        const std::uint64_t hash = hash_of(backend, value);
        const std::vector<std::uint64_t> hashes = gathered(replicas, backend, hash);
        const std::uint64_t right = most_common(hashes);
        const auto n_right = std::count(hashes.begin(), hashes.end(), right);
        if (n_right == static_cast<std::ptrdiff_t>(hashes.size())) continue;
        tie = tie || 2 * n_right == static_cast<std::ptrdiff_t>(hashes.size());
        if (hash != right) mine = std::max(mine, packed(Place::weight, 0, session.rank(), part.id));
      }
    }
  }
  const std::int64_t worst = session.largest(mine);
  const bool undecided = session.any(tie);
  if (worst == 0) return "";
  return text_of(engine.params().table(), grid.here(), worst) + " differs from the other replicas" +
         (undecided ? ", of two: which of them is wrong cannot be told" : "");
}

}  // namespace trireme
