#pragma once
// Where our parameters lie in the files of Hugging Face models: names, transposes and fused matrices of the two
// families of layouts. It does not read config.json and does not decide whether a model fits.

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/io/safetensors.h"

namespace trireme {

// gpt2: Conv1D weights are [in, out] and q, k, v are one matrix. llama: also Mistral, Qwen 2 and Qwen 3.
enum class HfFamily : std::uint8_t { gpt2, llama };

// How the rows of ours may differ in number from the file's.
enum class HfRows : std::uint8_t {
  same,
  padded,  // ours may have more: vocabulary padding, zero
  cut,     // the file may have more: positions that we never reach
};

// Element (r, c) of our [out, in] array is element (first_row + r, first_column + c) of the file's, or, transposed,
// element (first_row + c, first_column + r). For vectors first_row counts elements.
struct HfPlace {
  std::string name;
  bool transposed = false;
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t n_side_by_side = 1;  // arrays of the size of ours that the file's consists of, along our rows
  HfRows rows = HfRows::same;
};

// Place of our parameter ("block.3.attn.q.weight"), or nothing when the family has no such parameter. hidden:
// model.hidden.
std::optional<HfPlace> hf_place(HfFamily family, const std::string& parameter, std::int64_t hidden);

// The family by the names in a file, or nothing.
std::optional<HfFamily> hf_family_of(const SafetensorsFile& file);

// Our parameter of shape `global`, row-major. A leading "transformer." or "model." of the name may be absent in the
// file. Throws Error(Exit::data) with both shapes when they do not fit.
std::vector<double> hf_values(const SafetensorsFile& file, const HfPlace& place, const Shape& global);

}  // namespace trireme
