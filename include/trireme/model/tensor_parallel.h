#pragma once
// The two conjugate cuts of tensor parallelism, written once. Outside the matrix products a rank holds a slice of the
// tokens (sequence parallelism) or all of them; inside it holds all tokens and a part of the features.
//   forward  enter: gather tokens (or nothing)          leave: sum over tp, scattered over tokens (or all-reduced)
//   backward of enter is leave, backward of leave is enter (Korthikanti et al., 2022, section 4.2.2).
// With one tp rank everything here is free: tensors are passed through.

#include "trireme/model/context.h"

namespace trireme {

// Rows of a tensor of all T tokens that this rank keeps outside the matrix products.
Tensor own_tokens(const Context& c, Tensor all_T);
std::int64_t n_own_tokens(const Context& c, std::int64_t n_tokens);

// One side of a product: a tensor as it is stored, or its FP8 bytes (rows) with their scales, or both where some
// products are in FP8 and some are not.
struct Operand {
  Tensor tensor, rows, scale;
  Operand fp8() const { return rows ? Operand{{}, rows, scale} : *this; }  // for products in FP8 alone
};

// All tokens from the slice: x itself, or a gathered copy in scratch; FP8 rows travel as they are, in half the bytes.
// Runs in the background until wait().
class Entered {
 public:
  Entered(Context& c, const Operand& x_own);
  Operand wait();

 private:
  Context& c_;
  Operand all_;
  Tensor scale_parts_;  // scales of blocks, of one rank's tokens after the other's
  Ticket ticket_;
};

// Where a product whose terms are spread over tp is written, and its sum over tp.
class Leaving {
 public:
  // out_own: the slice (or whole) that will hold the sum. partial() is out_own itself when no scatter is needed.
  Leaving(Context& c, Tensor out_own, std::int64_t n_tokens);
  Tensor partial() const { return partial_; }
  bool whole() const;  // one tp rank: partial() already is the sum, and a residual may be added in the same product
  void start();        // partial() is written: sums in the background
  void wait();         // out_own holds the sum
 private:
  Context& c_;
  Tensor out_, partial_;
  Ticket ticket_;
};

}  // namespace trireme
