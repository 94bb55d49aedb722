#include "trireme/device/fp8_scaling.h"

#include "trireme/base/check.h"

namespace trireme {

Shape scale_shape(Scaling scaling, std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = div_up(columns, k_scale_block);
  if (scaling == Scaling::row) return {rows};
  if (scaling == Scaling::tensor) return {1};
  if (scaling == Scaling::block) return {blocks, rows};
  return {div_up(rows, k_scale_block), round_up(blocks, 4)};
}

Scaling scaling_of(const Tensor& q, const Tensor& scale) {
  if (scale.shape.rank == 1) return scale.count() == 1 ? Scaling::tensor : Scaling::row;
  const Shape block = scale_shape(Scaling::block, q.rows(), q.columns());
  if (scale.shape == block) return Scaling::block;
  require(scale.shape == scale_shape(Scaling::square, q.rows(), q.columns()),
          "an fp8 matrix of " + to_string(q.shape) + " cannot have scales of " + to_string(scale.shape));
  return Scaling::square;
}

}  // namespace trireme
