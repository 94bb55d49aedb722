#pragma once
// The products of a linear layer in the precision of its weights: as stored, or in FP8. Equations for one token:
// y = W x + b, dx = W^T dy, dW += dy x^T. It owns nothing and does not know tensor parallelism, but for the largest
// magnitude of what ranks share.

#include "trireme/model/tensor_parallel.h"

namespace trireme {

// n consecutive joined parameters as one matrix, and as many biases (-1: none) as one vector.
struct Linear {
  ParamId weight = -1, bias = -1;
  int n = 1;
};

enum class Role : std::uint8_t { activation, gradient };  // x or dy

bool in_fp8(const Context& c, const Linear& l);
Tensor bias_of(const Context& c, const Linear& l);

// Memory for x or dy as a side of the FP8 products of a layer: bytes and scales, and the tensor where dW is in bf16.
Operand take_operand(Context& c, Role role, Shape shape, Arena& arena);
// Whether the fused kernels fill such an operand: rows with scales of their own, and nothing else.
bool is_rows_only(const Context& c, const Operand& operand);
// Bytes and scales of x.
void quantize(Context& c, const Operand& to, Tensor x);

// x or dy as a side of products with this weight: itself, or quantised into new memory of `arena`.
Operand operand_of(Context& c, const Linear& l, Role role, Tensor x, Arena& arena);

// y = x W^T + bias + addend; both may be absent. addend is not y.
void linear(Context& c, const Linear& l, Tensor y, const Operand& x, Tensor bias, Tensor addend);
void linear_dx(Context& c, const Linear& l, Tensor dx, const Operand& dy);
void linear_dw(Context& c, const Linear& l, const Operand& dy, const Operand& x, Into into);

}  // namespace trireme
