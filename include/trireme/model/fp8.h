#pragma once
// Linear layers in FP8: which weights have FP8 copies, the copies themselves, and how their products are formed.
// Activations and gradients are quantised where they are used; nothing here knows layers.
//
// Recipes. A scale belongs to
//   row      a token of an activation or gradient, an output feature of a weight;
//   current  a whole tensor of a micro-batch, over the ranks of cp and tp that share it;
//   block    1 x 128 of activations and gradients, 128 x 128 of weights.
// It is what the largest magnitude there needs. dW = dy^T x sums over tokens: with rows its operands get one scale
// each, the largest of the row scales, with blocks 128 tokens of 128 channels share the largest. Scales are powers of
// two unless the deck says otherwise: values then depend neither on the grid nor on the micro-batch, except for those
// that become subnormal.

#include <map>

#include "trireme/device/arena.h"
#include "trireme/device/backend.h"
#include "trireme/model/param_store.h"

namespace trireme {

struct Context;

enum class Fp8Recipe : std::uint8_t { row, current, block };
enum class WeightGradients : std::uint8_t { fp8, bf16 };  // the products dW

struct Fp8Options {
  Fp8Recipe recipe = Fp8Recipe::row;
  Scales scales = Scales::powers_of_two;
  DType forward = DType::e4m3, gradient = DType::e5m2;
  Accumulation forward_sum = Accumulation::fast, backward_sum = Accumulation::exact;
  WeightGradients weight_gradients = WeightGradients::fp8;
};

class Fp8Weights {
 public:
  // A matrix [F, C] for y = x W^T, and transposed [C, F] for dx = dy W.
  struct Copy {
    Tensor rows_FC, rows_scale, columns_CF, columns_scale;
  };

  explicit Fp8Weights(const Fp8Options& options) : options_(options) {}
  const Fp8Options& options() const { return options_; }
  Scaling scaling() const;  // of activations and gradients

  // Memory for the n joined parameters from `first` on. Throws Error(Exit::usage) when a side is no multiple of 16.
  void add(const ParamStore& params, ParamId first, int n, Arena& persistent);
  bool holds(ParamId first) const { return entries_.count(first) != 0; }
  // The copies of the present weights, made again when they have changed since. Collective over tp where a scale
  // belongs to the whole tensor.
  const Copy& of(ParamId first, Context& c);
  void weights_changed() { ++version_; }

 private:
  struct Entry {
    Copy copy;
    int n = 1;
    std::int64_t version = -1;
  };
  void quantize(const Copy& copy, Tensor weight_FC, Context& c) const;

  Fp8Options options_;
  std::map<ParamId, Entry> entries_;
  std::int64_t version_ = 0;
};

}  // namespace trireme
