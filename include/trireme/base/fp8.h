#pragma once
// FP8 numbers on the host, bit for bit as Hopper's conversions give them: E4M3 (no infinity, largest 448) and E5M2
// (largest 57344), Micikevicius et al., 2022, table 1. Nearest even, what is too large saturates, NaN stays NaN.

#include <cstdint>

#include "trireme/base/dtype.h"

namespace trireme {

float largest_fp8(DType format);
std::uint8_t round_fp8(float x, DType format);
float widen_fp8(std::uint8_t bits, DType format);

// The smallest s >= 2^-100, among powers of two or among all numbers, with absmax / s <= largest_fp8(format) (to
// rounding); NaN when absmax is not finite. A power of two moves the exponents only: the rounded values do not depend
// on it unless they become subnormal.
enum class Scales : std::uint8_t { powers_of_two, any };
float fp8_scale(float absmax, DType format, Scales scales);

}  // namespace trireme
