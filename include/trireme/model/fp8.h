#pragma once
// Linear layers in FP8: which weights have FP8 copies, the copies themselves, and how their products are formed.
// Activations and gradients are quantised where they are used; nothing here knows layers.
//
// Recipe "row": every token of an activation or gradient and every output feature of a weight has its own scale, taken
// from its own largest magnitude. dW = dy^T x sums over tokens, so its operands get one scale each, the largest of
// the row scales. Scales are powers of two, hence values depend neither on the grid nor on the micro-batch, except for
// those that become subnormal.

#include <map>

#include "trireme/device/arena.h"
#include "trireme/device/backend.h"
#include "trireme/model/param_store.h"

namespace trireme {

struct Fp8Options {
  DType forward = DType::e4m3, gradient = DType::e5m2;
  Accumulation forward_sum = Accumulation::fast, backward_sum = Accumulation::exact;
};

class Fp8Weights {
 public:
  // A matrix [F, C] for y = x W^T, and transposed [C, F] for dx = dy W. Scales are per row of each.
  struct Copy {
    Tensor rows_FC, rows_scale_F, columns_CF, columns_scale_C;
  };

  explicit Fp8Weights(const Fp8Options& options) : options_(options) {}
  const Fp8Options& options() const { return options_; }

  // Memory for the n joined parameters from `first` on. Throws Error(Exit::usage) when a side is no multiple of 16.
  void add(const ParamStore& params, ParamId first, int n, Arena& persistent);
  bool holds(ParamId first) const { return entries_.count(first) != 0; }
  // The copies of the present weights, made again when they have changed since.
  const Copy& of(ParamId first, const ParamStore& params, Backend& backend);
  void weights_changed() { ++version_; }

 private:
  struct Entry {
    Copy copy;
    int n = 1;
    std::int64_t version = -1;
  };
  Fp8Options options_;
  std::map<ParamId, Entry> entries_;
  std::int64_t version_ = 0;
};

}  // namespace trireme
