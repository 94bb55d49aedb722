#pragma once
// Writes the tensors of a Hugging Face model as model.safetensors, or in pieces with an index where that is larger than
// asked for. The files are memory: whoever has data for a tensor writes there, in any order. It converts nothing.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device/tensor.h"

namespace trireme {

struct NewTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

class SafetensorsWriter {
 public:
  // Throws Error(Exit::data), for want of space among others, before anything is to be copied.
  SafetensorsWriter(const std::string& folder, const std::vector<NewTensor>& tensors, std::int64_t piece_bytes);
  ~SafetensorsWriter();
  Tensor at(const std::string& name) const;  // its memory, as a vector or a matrix
  void finish();                             // everything is on the disk, and the index is written
  int n_files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
