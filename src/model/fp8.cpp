#include "trireme/model/fp8.h"

#include "trireme/base/check.h"

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
                                 "precision.fp8_last_bf16)");
  }
  Entry& entry = entries_[first];
  entry.n = n;
  entry.copy.rows_FC = persistent.take(options_.forward, {F, C});
  entry.copy.rows_scale_F = persistent.take(DType::f32, {F});
  entry.copy.columns_CF = persistent.take(options_.forward, {C, F});
  entry.copy.columns_scale_C = persistent.take(DType::f32, {C});
}

const Fp8Weights::Copy& Fp8Weights::of(ParamId first, const ParamStore& params, Backend& backend) {
  Entry& entry = entries_.at(first);
  if (entry.version != version_) {
    backend.quantize_rows(entry.copy.rows_FC, entry.copy.rows_scale_F, params.joined_value(first, entry.n));
    backend.transpose_quantized(entry.copy.columns_CF, entry.copy.columns_scale_C, entry.copy.rows_FC,
                                entry.copy.rows_scale_F);
    entry.version = version_;
  }
  return entry.copy;
}

}  // namespace trireme
