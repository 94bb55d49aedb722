#pragma once
// The products of a linear layer in the precision of its weights: as stored, or in FP8. Equations for one token:
// y = W x + b, dx = W^T dy, dW += dy x^T. It owns nothing and does not know tensor parallelism.

#include "trireme/model/tensor_parallel.h"

namespace trireme {

// n consecutive joined parameters as one matrix, and as many biases (-1: none) as one vector.
struct Linear {
  ParamId weight = -1, bias = -1;
  int n = 1;
};

bool in_fp8(const Context& c, const Linear& l);
Tensor bias_of(const Context& c, const Linear& l);

// Memory for FP8 rows and their scales.
Operand take_rows(Shape shape, DType format, Arena& arena);
// x or dy as a side of products with this weight: itself, or quantised into new memory of `arena`.
Operand activation_operand(Context& c, const Linear& l, Tensor x, Arena& arena);
Operand gradient_operand(Context& c, const Linear& l, Tensor dy, Arena& arena);

// y = x W^T + bias + addend; both may be absent. addend is not y.
void linear(Context& c, const Linear& l, Tensor y, const Operand& x, Tensor bias, Tensor addend);
void linear_dx(Context& c, const Linear& l, Tensor dx, const Operand& dy);
void linear_dw(Context& c, const Linear& l, const Operand& dy, const Operand& x);  // (+)= as c.into says

}  // namespace trireme
