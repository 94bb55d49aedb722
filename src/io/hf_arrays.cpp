#include "hf_arrays.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/check.h"
#include "trireme/io/param_places.h"

namespace trireme {

namespace {

// Copies the transpose of from [rows, columns] (pitch elements apart) to `to` [columns, rows]. Tiles stay in the cache.
void transpose(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch, std::int64_t rows,
               std::int64_t columns, std::size_t size) {
  constexpr std::int64_t k_tile = 32;
  const auto bytes = static_cast<std::int64_t>(size);
  for (std::int64_t r0 = 0; r0 < rows; r0 += k_tile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += k_tile) {
      for (std::int64_t c = c0; c < std::min(c0 + k_tile, columns); ++c) {
        for (std::int64_t r = r0; r < std::min(r0 + k_tile, rows); ++r)
          std::memcpy(to + (c * to_pitch + r) * bytes, from + (r * from_pitch + c) * bytes, size);
      }
    }
  }
}

std::int64_t n_held(const HfPlace& place, const ParamSpec& spec) {
  return place.rows == HfRows::padded && spec.valid_rows > 0 ? spec.valid_rows : spec.shape[0];
}

}  // namespace

std::vector<std::int64_t> hf_shape(const HfPlace& place, const ParamSpec& spec) {
  std::vector<std::int64_t> shape{n_held(place, spec) * place.n_side_by_side};
  if (spec.shape.rank == 2) shape.push_back(spec.shape[1]);
  if (place.transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

HfArrays::HfArrays(const Model& model, HfFamily family, const std::string& folder, DType dtype,
                   const TensorOf& tensor_of)
    : n_layers_(model.deck().layers), dtype_(dtype), spill_(folder) {
  const HfSizes sizes{model.deck().hidden, model.deck().head_dim};
  for (const ParamSpec& spec : model.table().all()) {
    const std::optional<HfPlace> place = hf_place(family, spec.name, sizes);
    require(place.has_value(), "a parameter without a place in a Hugging Face model: " + spec.name);
    add(spec, *place, tensor_of(*place, spec));
  }
}

Stored& HfArrays::array_of(const ParamSpec& spec) {
  const std::string path = "/param/" + spec.stack;
  const auto found = std::find_if(arrays_.begin(), arrays_.end(), [&](const Stored& a) { return a.path == path; });
  if (found != arrays_.end()) return *found;
  arrays_.push_back({path, stacked(spec, n_layers_), dtype_, {}, "", {}, spec.valid_rows, ""});
  return arrays_.back();
}

// Rows of ours that lie behind each other in `data`.
void HfArrays::add_rows(const ParamSpec& spec, Range rows, std::byte* data, DType dtype) {
  Box box{spec.shape, spec.shape};
  for (int i = 0; i < spec.shape.rank; ++i) box.offset[i] = 0;
  box.offset[0] = rows.first;
  box.extent[0] = rows.count();
  array_of(spec).pieces.push_back({stacked(spec, box), Tensor(data, dtype, box.extent), true, {}});
}

void HfArrays::add_padding(const ParamSpec& spec, Range rows, DType dtype) {
  if (rows.count() == 0) return;
  padding_.emplace_back(static_cast<std::size_t>(rows.count() * spec.shape.columns()) * size_of(dtype));
  add_rows(spec, rows, padding_.back().data(), dtype);
}

void HfArrays::add(const ParamSpec& spec, const HfPlace& place, Tensor theirs) {
  Stored& array = array_of(spec);
  array.hf_names += (array.hf_names.empty() ? "" : "\n") + place.name;
  const std::int64_t rows = n_held(place, spec), columns = spec.shape.columns();
  const auto row_bytes = columns * static_cast<std::int64_t>(size_of(theirs.dtype));
  if (place.transposed) {
    std::byte* memory = spill_.take(static_cast<std::size_t>(rows * row_bytes));
    turned_.push_back({Tensor(memory, theirs.dtype, spec.shape), theirs, place.first_column});
    add_rows(spec, {0, rows}, memory, theirs.dtype);
    return;
  }
  const std::int64_t step = place.group > 0 ? place.group : rows;
  for (std::int64_t r = 0; r < rows; r += step)
    add_rows(spec, {r, std::min(r + step, rows)}, theirs.data + place.row_of(r) * row_bytes, theirs.dtype);
  add_padding(spec, {rows, spec.shape[0]}, theirs.dtype);
}

void HfArrays::transpose_from_tensors() const {
  for (const Turned& t : turned_) {
    const std::size_t size = size_of(t.ours.dtype);
    transpose(t.ours.data, t.ours.columns(), t.theirs.data + t.first_column * static_cast<std::int64_t>(size),
              t.theirs.columns(), t.ours.columns(), t.ours.rows(), size);
  }
}

void HfArrays::transpose_to_tensors() const {
  for (const Turned& t : turned_) {
    const std::size_t size = size_of(t.ours.dtype);
    transpose(t.theirs.data + t.first_column * static_cast<std::int64_t>(size), t.theirs.columns(), t.ours.data,
              t.ours.columns(), t.ours.rows(), t.ours.columns(), size);
  }
}

}  // namespace trireme
