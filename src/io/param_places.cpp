#include "trireme/io/param_places.h"

namespace trireme {

Shape stacked(const ParamSpec& spec, std::int64_t n_layers) {
  if (spec.stack == spec.name) return spec.shape;
  return spec.shape.rank == 1 ? Shape{n_layers, spec.shape[0]} : Shape{n_layers, spec.shape[0], spec.shape[1]};
}

Box stacked(const ParamSpec& spec, const Box& box) {
  if (spec.stack == spec.name) return box;
  Box with_layer;
  with_layer.offset.rank = with_layer.extent.rank = box.extent.rank + 1;
  with_layer.offset[0] = spec.layer;
  with_layer.extent[0] = 1;
  for (int i = 0; i < box.extent.rank; ++i) {
    with_layer.offset[i + 1] = box.offset[i];
    with_layer.extent[i + 1] = box.extent[i];
  }
  return with_layer;
}

}  // namespace trireme
