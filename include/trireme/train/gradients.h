#pragma once
// Gradients from complete to reduced: sums over tp where each rank saw a part, over the two holders of a tied
// embedding, and over the replicas {dp, cp}, bucket by bucket while backward still runs. It does not update weights.

#include <vector>

#include "trireme/comm/process_grid.h"
#include "trireme/model/param_store.h"

namespace trireme {

enum class Zero : std::uint8_t { off, on };  // on: each replica keeps the sum of its range only (ZeRO-1)

// The range of a bucket whose optimizer state this replica holds. off: all of it.
Range owned_range(const Bucket& bucket, const Communicator& replicas, Zero zero);

// Host memory that MPI takes for itself while gradients travel.
std::size_t copies_inside_mpi(const ParamStore& params, int n_replicas);

class GradientReducer {
 public:
  GradientReducer(ParamStore& params, const ProcessGrid& grid, Backend& backend, Zero zero);

  void begin_step();  // zeroes the gradients that are only ever added to, and the gaps between the others
  // Backward of the last micro-batch has passed this layer of this chunk: buckets that are complete start to travel.
  void passed(int chunk, int layer);
  void finish();  // starts what is left and waits for all
  // norm_sq_1 (f64) += squares of the gradients, every logical element once over all ranks together.
  void add_norm(Tensor norm_sq_1) const;
  // squares_L2 (f64 [layers + 2, 2]) += squares of gradients and weights by layer: what comes before the blocks, each
  // block, what comes after. Valid from finish() until the next step; this rank's share, every element once over all
  // ranks.
  void add_layer_norms(Tensor squares_L2) const;

 private:
  void start(std::size_t bucket);

  ParamStore& params_;
  const ProcessGrid& grid_;
  Backend& backend_;
  Zero zero_;
  std::vector<bool> started_;
  std::vector<Ticket> tickets_;
};

}  // namespace trireme
