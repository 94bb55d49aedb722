#pragma once
// What the operations of a step ask of a device and of the wires between ranks: a plan backend and plan communicators
// tell a Meter, in the order in which the program calls them. It knows no times; who listens puts them there.

#include "trireme/device/backend.h"

namespace trireme {

enum class ProductKind : std::uint8_t { forward, dx, dw };

// One matrix product of T tokens, F outputs and C inputs of a layer: y = x w^T, dx = dy w or dw (+)= dy^T x.
struct Product {
  ProductKind kind = ProductKind::forward;
  std::int64_t T = 0, F = 0, C = 0;
  DType operands = DType::f32;
};

// Operations that are bound by memory. The bytes of a pass are those that it must read and write once.
enum class Pass : std::uint8_t {
  elementwise,  // fill, copy, add, scale, dropout, merging of attention
  norm,
  norm_backward,
  activation,
  activation_backward,  // with the sums of the bias' gradient
  column_sums,
  rope,
  embedding,
  embedding_backward,
  loss,  // softmax and cross entropy
  quantize,
  reduce,  // norms of gradients
  adamw
};
inline constexpr int k_n_passes = 13;
const char* name_of(Pass pass);

enum class ExchangeKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, shift, send };
inline constexpr int k_n_exchanges = 6;
const char* name_of(ExchangeKind kind);

// One operation of a communicator of `size` ranks, neighbours `stride` ranks of the job apart. bytes: of the whole
// tensor (all_gather, reduce_scatter: of all parts together).
struct Exchange {
  ExchangeKind kind = ExchangeKind::all_reduce;
  int size = 1, stride = 1;
  double bytes = 0;
};

class Meter {
 public:
  virtual ~Meter() = default;
  virtual void product(const Product&) {}
  virtual void attention(const AttentionShape&, DType, double /*flops*/) {}
  virtual void attention_backward(const AttentionShape&, DType, double /*flops*/) {}
  virtual void pass(Pass, double /*bytes*/) {}
  // On the compute stream, which waits for the end.
  virtual void exchange(const Exchange&) {}
  // Beside it, after what this lane was given before: seconds at which it ends, for wait().
  virtual double exchange_beside(const Exchange&, const void* /*lane*/) { return 0; }
  virtual void wait(double /*until*/) {}
  virtual double now() const { return 0; }  // seconds on the compute stream
};

// As make_plan_backend(as_if), and tells the meter, which must outlive it; marks are the meter's times.
std::unique_ptr<Backend> make_plan_backend(DeviceKind as_if, Meter& meter);

}  // namespace trireme
