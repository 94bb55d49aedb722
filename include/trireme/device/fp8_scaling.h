#pragma once
// How the scales of an fp8 matrix lie over it. The value of an element is q * scale of the rows, block or tensor that
// it belongs to; the shape of the scale tensor (f32) says which. It computes nothing.

#include "trireme/base/fp8.h"
#include "trireme/device/tensor.h"

namespace trireme {

inline constexpr std::int64_t k_scale_block = 128;

// Of a matrix q [R, C]. The layouts are those of cuBLASLt ("Scaling factors layouts" of its manual).
enum class Scaling : std::uint8_t {
  row,     // [R]
  tensor,  // [1]
  block,   // [ceil(C / 128), R]: 128 neighbours of a row share one
  square,  // [ceil(R / 128), ceil(C / 128) rounded up to 4]: 128 rows of 128; what rounding added is zero
};

Shape scale_shape(Scaling scaling, std::int64_t rows, std::int64_t columns);
// What a scale tensor of q is. Matrices have at least 16 rows where it matters: no two shapes are alike then.
Scaling scaling_of(const Tensor& q, const Tensor& scale);

}  // namespace trireme
