#pragma once
// Hugging Face folders to checkpoints and back, tensor by tensor with bounded memory. One process, no MPI. It does not
// judge whether the numbers are good: tools/convert --check does.

#include <optional>
#include <string>

#include "trireme/io/hf_config.h"

namespace trireme {

struct Imported {
  HfModel hf;
  Deck deck;  // as stored in the checkpoint
  DType dtype = DType::f32;
  std::int64_t n_elements = 0;
};

// Writes the weights of HF_DIR as /param of a new checkpoint, in the element type that most of them have, at step 0.
// Tensors without a place in the model are refused by name, but for tables that every program computes itself.
Imported import_hf(const std::string& folder, const std::string& checkpoint);

struct ExportOptions {
  std::optional<DType> dtype;  // absent: as the checkpoint has them; f32 takes the masters where there are some
  std::int64_t piece_bytes = std::int64_t{5} << 30;
  std::string like;  // a Hugging Face folder: its tokenizer files are copied, its token ids and longest sequence kept
};
struct Exported {
  HfModel hf;
  DType dtype = DType::f32;
  int n_files = 1;
};
// Writes FOLDER.part and renames it; FOLDER must not exist or be empty.
Exported export_hf(const std::string& checkpoint, const std::string& folder, const ExportOptions& options);

}  // namespace trireme
