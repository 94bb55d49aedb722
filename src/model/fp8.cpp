#include "trireme/model/fp8.h"

#include "trireme/base/check.h"
#include "trireme/model/context.h"

namespace trireme {

namespace {

constexpr std::int64_t k_multiple = 16;  // of both sides of an FP8 matrix (cuBLASLt)

}  // namespace

void Fp8Weights::add(const ParamStore& params, ParamId first, int n, Arena& persistent) {
  const Tensor weight = params.joined_value(first, n);
  const std::int64_t F = weight.rows(), C = weight.columns();
  if (F % k_multiple != 0 || C % k_multiple != 0) {
    throw Error(Exit::usage, "precision.compute = \"fp8\": " + params.table()[first].name + " is " + std::to_string(F) +
                                 " x " + std::to_string(C) +
                                 " on a rank; both must be multiples of 16: change the model's sizes or "
                                 "parallel.tensor, or keep the layer in bf16 (precision.fp8_first_bf16, "
                                 "precision.fp8_last_bf16, precision.fp8_bf16_layers, precision.fp8_head)");
  }
  const Scaling scaling = options_.recipe == Fp8Recipe::block ? Scaling::square : this->scaling();
  Entry& entry = entries_[first];
  entry.n = n;
  entry.copy.rows_FC = persistent.take(options_.forward, {F, C});
  entry.copy.rows_scale = persistent.take(DType::f32, scale_shape(scaling, F, C));
  entry.copy.columns_CF = persistent.take(options_.forward, {C, F});
  entry.copy.columns_scale = persistent.take(DType::f32, scale_shape(scaling, C, F));
}

Scaling Fp8Weights::scaling() const {
  if (options_.recipe == Fp8Recipe::row) return Scaling::row;
  return options_.recipe == Fp8Recipe::block ? Scaling::block : Scaling::tensor;
}

const Fp8Weights::Copy& Fp8Weights::of(ParamId first, Context& c) {
  Entry& entry = entries_.at(first);
  if (entry.version != version_) {
    quantize(entry.copy, c.params.joined_value(first, entry.n), c);
    c.be.transpose_quantized(entry.copy.columns_CF, entry.copy.columns_scale, entry.copy.rows_FC,
                             entry.copy.rows_scale);
    entry.version = version_;
  }
  return entry.copy;
}

void Fp8Weights::quantize(const Copy& copy, Tensor weight_FC, Context& c) const {
  if (options_.recipe == Fp8Recipe::row) return c.be.quantize_rows(copy.rows_FC, copy.rows_scale, weight_FC);
  if (options_.recipe == Fp8Recipe::block)
    return c.be.quantize_blocks(copy.rows_FC, copy.rows_scale, weight_FC, options_.scales);
  c.be.largest_magnitude(copy.rows_scale, weight_FC);
  c.grid.along(Axis::tp).all_reduce(copy.rows_scale, Reduce::max);
  c.be.scale_for(copy.rows_scale, copy.rows_scale, options_.forward, options_.scales);
  c.be.quantize(copy.rows_FC, weight_FC, copy.rows_scale);
}

}  // namespace trireme
