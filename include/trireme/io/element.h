#pragma once
// Element types of host memory, one into another: f64, f32, bf16 and f16 among themselves, every type into itself.
// Rounding is to nearest even; to 16 bits it goes by way of f32.

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"

namespace trireme {

bool can_convert(DType to, DType from);
// Masters of bf16 weights, as Backend::adamw keeps them: master_bits = weight_bits * 65536 + int16(remainder). The
// weights may be bf16 or what bf16 has been widened to (f32, f64); the weight of a master is it rounded, ties away
// from zero.
void join_master(DType to, std::byte* master, DType weight_dtype, const std::byte* weights, const std::byte* remainders,
                 std::int64_t count);
void split_master(std::byte* remainders, std::byte* weights_bf16, DType from, const std::byte* master,
                  std::int64_t count);
void convert(DType to, std::byte* out, DType from, const std::byte* in, std::int64_t count);

}  // namespace trireme
