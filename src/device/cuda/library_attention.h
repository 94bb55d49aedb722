#pragma once
// Attention by a vendor library behind CudaBackend's methods. It may decline a call, which our own kernel then takes.

#include <memory>
#include <string>

#include "trireme/device/backend.h"

namespace trireme {

class CudaBackend;

struct AttentionTensors {
  Tensor q, k, v, out, lse;
  Tensor dout, dq, dk, dv;  // absent in the forward pass
};

class LibraryAttention {
 public:
  virtual ~LibraryAttention() = default;
  virtual std::string name() const = 0;
  // False: not done, nothing was written.
  virtual bool forward(const AttentionTensors& t, const AttentionShape& shape) = 0;
  virtual bool backward(const AttentionTensors& t, const AttentionShape& shape, Into into) = 0;
};

// Null in a build without the library.
std::unique_ptr<LibraryAttention> make_library_attention(CudaBackend& backend);

}  // namespace trireme
