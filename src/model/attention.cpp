// Legend: T local tokens of all sequences, q k v columns of the fused projection, kv = [k | v] packed to travel.
#include "trireme/model/attention.h"

#include <limits>
#include <utility>

#include "trireme/base/check.h"

namespace trireme {

std::vector<RingCall> ring_calls(int n, int rank, int source, std::int64_t local, std::int64_t window,
                                 Visibility visibility) {
  if (n == 1) return {{0, local, 0, local, 0, 0}};
  const std::int64_t chunk = div_exact(local, 2);
  const bool by_order = visibility == Visibility::by_order;
  if (by_order && source == rank) return {{0, local, 0, local, 0, 0}};  // local order is causal order
  if (by_order && source < rank) return {{0, local, 0, chunk, rank * chunk, source * chunk}};
  if (by_order) return {{chunk, chunk, 0, local, (2 * n - 1 - rank) * chunk, 0}};
  std::vector<RingCall> calls;
  for (const std::int64_t q : {0, 1}) {
    for (const std::int64_t k : {0, 1}) {
      const std::int64_t first_q = (q == 0 ? rank : 2 * n - 1 - rank) * chunk;
      const std::int64_t first_k = (k == 0 ? source : 2 * n - 1 - source) * chunk;
      const bool future = first_k > first_q + chunk - 1;
      const bool past = window > 0 && first_k + chunk - 1 <= first_q - window;
      if (!future && !past) calls.push_back({q * chunk, chunk, k * chunk, chunk, first_q, first_k});
    }
  }
  return calls;
}

std::vector<RingCall> Attention::calls(const Communicator& ring, int source, std::int64_t local) const {
  const bool positions = window > 0 || doc_start_T;
  return ring_calls(ring.size(), ring.rank(), source, local, window,
                    positions ? Visibility::by_position : Visibility::by_order);
}

AttentionShape Attention::shape_of(const RingCall& call, std::int64_t n_sequences, std::int64_t local) const {
  AttentionShape shape;
  shape.n_sequences = n_sequences;
  shape.query_heads = heads.query;
  shape.kv_heads = heads.kv;
  shape.head_dim = heads.size;
  shape.q_rows = call.q_rows;
  shape.k_rows = call.k_rows;
  shape.q_stride = shape.k_stride = local;
  shape.first_q = call.first_q;
  shape.first_k = call.first_k;
  shape.window = window;
  shape.scale = scale;
  return shape;
}

namespace {

// Rows row, row+1, .. of every sequence: the view starts there, the strides of the shape do the rest.
Tensor from_row(Tensor x, std::int64_t row) {
  return row == 0 ? x : x.slice_rows(row, x.rows() - row);
}

struct Columns {
  Tensor q, k, v;
};
Columns split(Tensor qkv, const HeadCounts& h) {
  return {qkv.slice_columns(0, h.query_columns()), qkv.slice_columns(h.query_columns(), h.kv_columns()),
          qkv.slice_columns(h.query_columns() + h.kv_columns(), h.kv_columns())};
}

}  // namespace

// The rank's own keys are seen in one call with every query and key: its results need no merging into zeros.
bool Attention::own_call_is_whole(const Communicator& ring, std::int64_t local) const {
  const std::vector<RingCall> own = calls(ring, ring.rank(), local);
  return own.size() == 1 && own.front().q_rows == local && own.front().k_rows == local;
}

Tensor Attention::doc_start(const RingCall& call) const {
  return doc_start_T ? from_row(doc_start_T, call.q_row) : Tensor{};
}

// Sequences have different lengths, so each is a call of its own.
void Attention::forward_cached(Context& c, Tensor qkv, std::int64_t n_sequences, Saved& saved) const {
  const auto [q, k, v] = split(qkv, heads);
  const std::int64_t local = div_exact(qkv.rows(), n_sequences), kv_columns = heads.kv_columns();
  for (std::int64_t b = 0; b < n_sequences; ++b) {
    const KvCache::Place& place = cache->sequences[static_cast<std::size_t>(b)];
    require(place.length + local <= cache->capacity, "a sequence outgrows its cache");
    const Tensor slot = cached_kv.slice_rows(place.slot * cache->capacity, place.length + local);
    const Tensor fresh = qkv.slice_columns(heads.query_columns(), 2 * kv_columns);
    c.be.copy(slot.slice_rows(place.length, local), fresh.slice_rows(b * local, local));
    const RingCall call{0, local, 0, place.length + local, place.length, 0};
    AttentionShape shape = shape_of(call, 1, local);
    shape.k_stride = cache->capacity;
    c.be.attention(saved.out.slice_rows(b * local, local), saved.lse.slice_rows(b * heads.query, heads.query),
                   q.slice_rows(b * local, local), slot.slice_columns(0, kv_columns),
                   slot.slice_columns(kv_columns, kv_columns), Tensor{}, shape);
  }
}

Tensor Attention::forward(Context& c, Tensor qkv, std::int64_t n_sequences, Arena& keep, Saved& saved) const {
  Communicator& ring = c.grid.along(Axis::cp);
  const std::int64_t T = qkv.rows(), local = div_exact(T, n_sequences), kv_columns = heads.kv_columns();
  saved.out = keep.take(c.compute, {T, heads.query_columns()});
  saved.lse = keep.take(c.acc(), {n_sequences * heads.query, local});
  if (cache != nullptr) {
    require(ring.size() == 1, "generation has no context parallelism");
    forward_cached(c, qkv, n_sequences, saved);
    return saved.out;
  }
  const auto [q, k, v] = split(qkv, heads);
  if (ring.size() == 1) {
    const RingCall whole{0, local, 0, local, 0, 0};
    c.be.attention(saved.out, saved.lse, q, k, v, doc_start_T, shape_of(whole, n_sequences, local));
    return saved.out;
  }

  const ArenaScope scope(c.scratch);
  Tensor kv = c.scratch.take(c.compute, {T, 2 * kv_columns}), next = c.scratch.take(c.compute, {T, 2 * kv_columns});
  const Tensor out = c.scratch.take(c.acc(), saved.out.shape), part = c.scratch.take(c.acc(), saved.out.shape);
  const Tensor part_lse = c.scratch.take(c.acc(), saved.lse.shape);
  c.be.copy(kv, qkv.slice_columns(heads.query_columns(), 2 * kv_columns));
  const bool whole_first = own_call_is_whole(ring, local);
  if (!whole_first) c.be.fill(out, 0);
  if (!whole_first) c.be.fill(saved.lse, -std::numeric_limits<double>::infinity());
  for (int step = 0; step < ring.size(); ++step) {
    Ticket arriving;
    if (step + 1 < ring.size()) arriving = ring.background([&](Communicator& lane) { lane.shift(next, kv); });
    const int source = (ring.rank() - step + ring.size()) % ring.size();
    for (const RingCall& call : calls(ring, source, local)) {
      const AttentionShape shape = shape_of(call, n_sequences, local);
      const Tensor k_part = from_row(kv.slice_columns(0, kv_columns), call.k_row);
      const Tensor v_part = from_row(kv.slice_columns(kv_columns, kv_columns), call.k_row);
      if (step == 0 && whole_first) {
        c.be.attention(out, saved.lse, q, k_part, v_part, doc_start(call), shape);
        continue;
      }
      const Tensor lse_part = part_lse.slice_columns(call.q_row, call.q_rows);
      c.be.attention(from_row(part, call.q_row), lse_part, from_row(q, call.q_row), k_part, v_part, doc_start(call),
                     shape);
      c.be.attention_merge(from_row(out, call.q_row), saved.lse.slice_columns(call.q_row, call.q_rows),
                           from_row(part, call.q_row), lse_part, shape);
    }
    arriving.wait();
    std::swap(kv, next);
  }
  c.be.copy(saved.out, out);
  return saved.out;
}

// The keys travel the ring once more; with each pair travel the gradients that the ranks passed so far have added.
// After a full turn and one more step they are home.
void Attention::backward(Context& c, Tensor dqkv, Tensor dout, Tensor qkv, std::int64_t n_sequences,
                         const Saved& saved) const {
  Communicator& ring = c.grid.along(Axis::cp);
  const std::int64_t T = qkv.rows(), local = div_exact(T, n_sequences), kv_columns = heads.kv_columns();
  const auto [q, k, v] = split(qkv, heads);
  const auto [dq, dk, dv] = split(dqkv, heads);
  if (ring.size() == 1) {
    const RingCall whole{0, local, 0, local, 0, 0};
    c.be.attention_backward(dq, dk, dv, dout, saved.out, saved.lse, q, k, v, doc_start_T,
                            shape_of(whole, n_sequences, local), Into::replace);
    return;
  }

  const ArenaScope scope(c.scratch);
  Tensor kv = c.scratch.take(c.compute, {T, 2 * kv_columns}), next = c.scratch.take(c.compute, {T, 2 * kv_columns});
  Tensor dkv = c.scratch.take(c.acc(), {T, 2 * kv_columns}), dnext = c.scratch.take(c.acc(), {T, 2 * kv_columns});
  const Tensor part = c.scratch.take(c.acc(), {T, 2 * kv_columns}), dq_sum = c.scratch.take(c.acc(), dq.shape);
  c.be.copy(kv, qkv.slice_columns(heads.query_columns(), 2 * kv_columns));
  const bool whole_first = own_call_is_whole(ring, local);
  if (!whole_first) c.be.fill(dq_sum, 0);
  Ticket gradients;
  for (int step = 0; step < ring.size(); ++step) {
    Ticket keys;
    if (step + 1 < ring.size()) keys = ring.background([&](Communicator& lane) { lane.shift(next, kv); });
    const int source = (ring.rank() - step + ring.size()) % ring.size();
    // The first call may write where later ones add, and its share of dk and dv starts the journey as it is.
    const bool whole = step == 0 && whole_first;
    const Tensor share = whole ? dkv : part;
    if (!whole) c.be.fill(part, 0);
    for (const RingCall& call : calls(ring, source, local)) {
      c.be.attention_backward(from_row(dq_sum, call.q_row), from_row(share.slice_columns(0, kv_columns), call.k_row),
                              from_row(share.slice_columns(kv_columns, kv_columns), call.k_row),
                              from_row(dout, call.q_row), from_row(saved.out, call.q_row),
                              saved.lse.slice_columns(call.q_row, call.q_rows), from_row(q, call.q_row),
                              from_row(kv.slice_columns(0, kv_columns), call.k_row),
                              from_row(kv.slice_columns(kv_columns, kv_columns), call.k_row), doc_start(call),
                              shape_of(call, n_sequences, local), whole ? Into::replace : Into::add);
    }
    gradients.wait();
    if (step > 0) std::swap(dkv, dnext);
    if (step == 0 && !whole) c.be.copy(dkv, part);
    if (step > 0) c.be.add(dkv, part);
    gradients = ring.background([&, from = dnext, to = dkv](Communicator& lane) { lane.shift(from, to); });
    keys.wait();
    std::swap(kv, next);
  }
  gradients.wait();
  c.be.copy(dq, dq_sum);
  c.be.copy(dqkv.slice_columns(heads.query_columns(), 2 * kv_columns), dnext);
}

}  // namespace trireme
