#pragma once
// The weights of a model as arrays of a checkpoint whose memory is that of Hugging Face tensors: saving them imports,
// loading them exports. Nothing is copied but the matrices that GPT-2 keeps transposed, and they go through a file.

#include <functional>
#include <string>
#include <vector>

#include "mapped.h"
#include "trireme/io/hugging_face.h"
#include "trireme/io/stored.h"
#include "trireme/model/model.h"

namespace trireme {

class HfArrays {
 public:
  using TensorOf = std::function<Tensor(const HfPlace& place, const ParamSpec& spec)>;  // row-major, as in the file

  // tensor_of: memory of the tensor of a place. folder: for transposed matrices on their way. dtype: of the arrays.
  HfArrays(const Model& model, HfFamily family, const std::string& folder, DType dtype, const TensorOf& tensor_of);
  const std::vector<Stored>& arrays() const { return arrays_; }
  std::vector<Stored>& arrays() { return arrays_; }
  void transpose_from_tensors() const;  // before saving
  void transpose_to_tensors() const;    // after loading

 private:
  struct Turned {
    Tensor ours, theirs;  // [out, in] of ours; [in, ..out..] with our part beginning at first_column
    std::int64_t first_column;
  };
  Stored& array_of(const ParamSpec& spec);
  void add(const ParamSpec& spec, const HfPlace& place, Tensor theirs);
  void add_rows(const ParamSpec& spec, Range rows, std::byte* data, DType dtype);
  void add_padding(const ParamSpec& spec, Range rows, DType dtype);

  std::int64_t n_layers_;
  DType dtype_;
  Spill spill_;
  std::vector<Stored> arrays_;
  std::vector<Turned> turned_;
  std::vector<std::vector<std::byte>> padding_;
};

// Shape of the tensor in which our parameter lies, without padding.
std::vector<std::int64_t> hf_shape(const HfPlace& place, const ParamSpec& spec);

}  // namespace trireme
