#pragma once
// Causal self-attention over local heads, as a ring over the context-parallel ranks (Liu et al., 2023; zigzag cut as in
// Megatron and Llama 3). It does not project and does not rotate. Partial results and travelling gradients are acc.

#include <vector>

#include "trireme/model/context.h"

namespace trireme {

struct HeadCounts {
  std::int64_t query = 1, kv = 1, size = 1;  // heads on this rank
  std::int64_t query_columns() const { return query * size; }
  std::int64_t kv_columns() const { return kv * size; }
  std::int64_t all_columns() const { return (query + 2 * kv) * size; }
};

// One attention call of a ring step, in local rows of a sequence and global positions.
struct RingCall {
  std::int64_t q_row, q_rows, k_row, k_rows, first_q, first_k;
  bool operator==(const RingCall&) const = default;
};
// Whether only the order of the tokens decides what is visible, or where they stand (a window, documents).
enum class Visibility : std::uint8_t { by_order, by_position };
// What rank `rank` of n must compute when it holds the keys of rank `source`. local: tokens of a sequence on a rank.
// Chunks that nobody may see are left out; chunks are joined where only the order matters.
std::vector<RingCall> ring_calls(int n, int rank, int source, std::int64_t local, std::int64_t window,
                                 Visibility visibility);

struct Attention {
  HeadCounts heads;
  std::int64_t window = 0;
  double scale = 1;
  Tensor doc_start_T;              // as in MicroBatch
  const KvCache* cache = nullptr;  // forward only, without context parallelism
  Tensor cached_kv;                // the cache of this layer

  struct Saved {
    Tensor out, lse;  // [T, query_columns], [n_sequences * query heads, tokens of a sequence]
  };

  // qkv: [T, all_columns] = [q | k | v]. keep holds what backward needs.
  Tensor forward(Context& c, Tensor qkv, std::int64_t n_sequences, Arena& keep, Saved& saved) const;
  // dqkv: written.
  void backward(Context& c, Tensor dqkv, Tensor dout, Tensor qkv, std::int64_t n_sequences, const Saved& saved) const;

 private:
  std::vector<RingCall> calls(const Communicator& ring, int source, std::int64_t local) const;
  bool own_call_is_whole(const Communicator& ring, std::int64_t local) const;
  Tensor doc_start(const RingCall& call) const;
  void forward_cached(Context& c, Tensor qkv, std::int64_t n_sequences, Saved& saved) const;
  AttentionShape shape_of(const RingCall& call, std::int64_t n_sequences, std::int64_t local) const;
};

}  // namespace trireme
