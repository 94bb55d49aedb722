#pragma once
// Where our parameters lie in the files of Hugging Face models: names, transposes and fused matrices of the three
// families of layouts. It does not read config.json and does not decide whether a model fits.

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/io/hf_files.h"

namespace trireme {

// gpt2: Conv1D weights are [in, out] and q, k, v are one matrix. llama: also Mistral, Qwen 2 and Qwen 3. neox: q, k, v
// are one matrix, head by head.
enum class HfFamily : std::uint8_t { gpt2, llama, neox };

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
  std::int64_t group = 0;  // > 0: our rows come in groups of this many, n_side_by_side groups apart (heads of neox)

  // The rows (elements of a vector) of the file's array, for our row r.
  std::int64_t row_of(std::int64_t r) const {
    return group == 0 ? first_row + r : first_row + r / group * group * n_side_by_side + r % group;
  }
};

// model.hidden and model.head_dim.
struct HfSizes {
  std::int64_t hidden = 0, head_dim = 0;
};

// Place of our parameter ("block.3.attn.q.weight"), or nothing when the family has no such parameter.
std::optional<HfPlace> hf_place(HfFamily family, const std::string& parameter, const HfSizes& sizes);

// The family by the names in a file, or nothing.
std::optional<HfFamily> hf_family_of(const HfFiles& files);

// The name as the files have it: a leading "transformer.", "model." or "gpt_neox." may be absent there.
std::string hf_name_in(const HfFiles& files, const std::string& name);

// Rows of our parameter of shape `global` that the files hold; the rest is padding. Throws Error(Exit::data) with both
// shapes when they do not fit.
std::int64_t hf_rows_in(const HfFiles& files, const HfPlace& place, const Shape& global);

// Rows [rows) (elements of a vector) of our parameter, row-major; zero where it is padding.
std::vector<double> hf_values(const HfFiles& files, const HfPlace& place, const Shape& global, Range rows);
std::vector<double> hf_values(const HfFiles& files, const HfPlace& place, const Shape& global);

}  // namespace trireme
