#include "trireme/device/tensor.h"

#include "trireme/base/check.h"

namespace trireme {

Tensor Tensor::slice_rows(std::int64_t first, std::int64_t count) const {
  const bool fits = shape.rank > 0 && first >= 0 && count >= 0 && first + count <= shape[0];
  if (!fits) require(false, "slice_rows: rows outside " + to_string(shape));
  Tensor part = *this;
  part.shape[0] = count;
  if (data != nullptr) part.data = data + static_cast<std::size_t>(first * pitch) * size_of(dtype);
  return part;
}

Tensor Tensor::slice_columns(std::int64_t first, std::int64_t count) const {
  const bool fits = shape.rank == 2 && first >= 0 && count >= 0 && first + count <= shape[1];
  if (!fits) require(false, "slice_columns: columns outside " + to_string(shape));
  Tensor part = *this;
  part.shape[1] = count;
  if (data != nullptr) part.data = data + static_cast<std::size_t>(first) * size_of(dtype);
  return part;
}

Tensor Tensor::as(Shape other) const {
  require(contiguous(), "as: only a contiguous tensor has another shape");
  if (other.count() != count())
    require(false, "as: " + to_string(shape) + " has not the elements of " + to_string(other));
  return Tensor(data, dtype, other);
}

}  // namespace trireme
