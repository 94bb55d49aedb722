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
  bool writes = true;  // false: a copy of what another rank writes; it is read but not written
  // For masters of bf16 weights: the memory of the weights (it may be `data` itself). With it an fp32 master of the
  // file becomes weight and remainder (u16), and a remainder of the file an fp32 master; see Backend::adamw.
  Tensor weight;
};

struct Stored {
  std::string path;                 // "/param/block.attn.q.weight", "/adam_m/embedding.token.weight"
  Shape global;                     // [layers, ...] for stacked blocks, else the parameter's shape
  DType dtype;                      // of the file
  std::vector<StoredPiece> pieces;  // empty on ranks that hold nothing: they still join the collective calls
  std::string hf_names;             // Hugging Face names, one per layer, newline separated
  Shape chunk;  // blocks of the file that ranks hold whole, so that what they write is contiguous; rank 0: none
  std::int64_t valid_rows = 0;  // rows of dimension 0 from here on are padding: zero, and the file may have more or
                                // fewer of them; 0: no padding
  std::string source;           // where to load from when it is not `path`
};

}  // namespace trireme
