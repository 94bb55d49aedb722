#pragma once
// What every layer needs besides its own parameters: hardware, grid, weights, scratch memory, and the facts of this
// step.

#include <vector>

#include "trireme/comm/process_grid.h"
#include "trireme/device/arena.h"
#include "trireme/device/backend.h"
#include "trireme/model/fp8.h"
#include "trireme/model/param_store.h"

namespace trireme {

// Keys and values of the tokens that a generator has passed through the model, after the rotation. A forward pass with
// a cache appends those of its own tokens and attends to all.
struct KvCache {
  struct Place {
    std::int64_t slot = 0, length = 0;  // rows [slot * capacity, + length) are filled
  };
  std::int64_t capacity = 0;     // tokens of a slot
  std::vector<Tensor> layers;    // [slots * capacity, keys and values] each, compute
  std::vector<Place> sequences;  // where each sequence of the micro-batch lies, before this pass
};

struct Context {
  Backend& be;
  const ProcessGrid& grid;
  ParamStore& params;
  Arena& scratch;  // free again at the end of the layer call that took from it
  DType compute = DType::f32;
  bool sequence_parallel = true;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  double dropout = 0;              // 0 when evaluating
  Into into = Into::add;           // gradients of blocks: replace in the first micro-batch of a step
  Tensor rope_table;               // [sequence, R/2, 2] or absent
  const KvCache* cache = nullptr;  // generation only
  Fp8Weights* fp8 = nullptr;       // null: no layer is in FP8

  DType acc() const { return accumulator_of(compute); }
};

// One micro-batch on this rank. T = micro * sequence / cp tokens; row b * (sequence/cp) + i is local token i of
// sequence b. Under context parallelism the local tokens of a sequence are its chunks r and 2cp-1-r of 2cp.
struct MicroBatch {
  std::int64_t n_sequences = 0;
  Tensor ids_T, target_T;  // i32; target -1: not counted. Absent on stages that need neither.
  Tensor position_T;       // i32, in the sequence; with data.reset_positions in the document
  Tensor row_T;            // i64, number of the token in the global batch: the index of its dropout
  Tensor doc_start_T;      // i32, place in the sequence where its document begins; absent: one document
};

}  // namespace trireme
