#pragma once
// This rank's parameters and gradients: the local boxes, packed into flat buckets that are reduced and sharded as a
// whole. A bucket is uniform: one chunk, one decay setting, one way of counting, so that every later pass runs over
// flat ranges.

#include <vector>

#include "trireme/comm/process_grid.h"
#include "trireme/device/arena.h"
#include "trireme/model/param_table.h"
#include "trireme/model/sharding.h"

namespace trireme {

struct Param {
  Tensor value, grad;  // the local box, row-major
  Box box;             // of the global array
};

struct BucketPart {
  ParamId id;
  Box box;
  std::int64_t offset;  // of its first element in the bucket
};

struct Bucket {
  int chunk = 0;
  int lowest_layer = 0;  // its gradients are complete when backward has passed this layer
  bool decay = true;
  bool partial = false;       // gradients are to be summed over tp before anything else
  bool at_both_ends = false;  // gradients are to be summed over the first and the last stage
  bool counts = true;         // false: a copy of what another rank of {pp, tp} counts and writes
  bool accumulates = false;   // gradients are always added to (embedding, head): must be zero when a step starts
  std::vector<BucketPart> parts;
  std::vector<Range> gaps;  // elements of no parameter: their gradients must be zero, reductions may scribble on them
  std::int64_t size = 0;    // elements, padded to a multiple of the replicas
  Tensor value, grad;       // [size]
};

enum class Holds : std::uint8_t { values, values_and_gradients };

struct ParamStoreOptions {
  DType compute = DType::f32, gradients = DType::f32;
  std::int64_t bucket_bytes = 64 << 20;  // of gradients
  bool sequence_parallel = true;
  Holds holds = Holds::values_and_gradients;
};

class ParamStore {
 public:
  ParamStore(const ParamTable& table, const GridPoint& here, const Partition& partition,
             const ParamStoreOptions& options, Arena& persistent);

  // The copy held by `chunk` (a tied embedding may have two on one rank only when there is one stage, and then it is
  // one). Waits for the values where they are still arriving: nobody can use weights too early.
  const Param& at(ParamId id) const;
  bool holds(ParamId id) const { return params_[static_cast<std::size_t>(id)].value.data != nullptr; }
  // Consecutive joined parameters as one matrix (or vector) with the rows of all.
  Tensor joined_value(ParamId first, int n) const;
  Tensor joined_grad(ParamId first, int n) const;

  // The values of a bucket arrive in the background; the ticket is waited for when one of its parameters is asked for.
  void arriving(std::size_t bucket, Ticket ticket) { arriving_[bucket] = std::move(ticket); }
  void settle() const;  // waits for all that are arriving; before a look into buckets() that at() does not see

  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const ParamTable& table() const { return table_; }
  const GridPoint& here() const { return here_; }
  const Partition& partition() const { return partition_; }
  std::int64_t n_local() const;  // elements without padding

  void initialise(Backend& backend, std::uint64_t seed);

 private:
  Tensor join(ParamId first, int n, bool gradient) const;

  const ParamTable& table_;
  GridPoint here_;
  Partition partition_;
  std::vector<Param> params_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;    // per parameter
  mutable std::vector<Ticket> arriving_;  // per bucket
};

}  // namespace trireme
