#pragma once
// Element types of host memory, one into another: f64, f32, bf16 and f16 among themselves, every type into itself.
// Rounding is to nearest even; to 16 bits it goes by way of f32.

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"

namespace trireme {

bool can_convert(DType to, DType from);
void convert(DType to, std::byte* out, DType from, const std::byte* in, std::int64_t count);

}  // namespace trireme
