#pragma once
// One global array of a checkpoint and this rank's part of it. Save and load walk the same list of these.

#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/device/tensor.h"

namespace trireme {

// A piece of a dataset: the box in global coordinates (for a stacked dataset dimension 0 is the layer) and the memory
// that holds its elements in the box's row-major order, contiguous.
struct StoredPiece {
  Box box;
  Tensor data;
};

struct Stored {
  std::string path;                 // "/param/block.attn.q.weight", "/adam_m/embedding.token.weight"
  Shape global;                     // [layers, ...] for stacked blocks, else the parameter's shape
  DType dtype;                      // of the file
  std::vector<StoredPiece> pieces;  // empty on ranks that hold nothing: they still join the collective calls
  bool writes = true;    // false: this rank's pieces are copies of another's; it reads them but does not write
  std::string hf_names;  // Hugging Face names, one per layer, newline separated
};

}  // namespace trireme
