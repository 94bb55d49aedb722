#pragma once
// Where a parameter lies in a checkpoint: the blocks' parameters are stacked with the layer as dimension 0. It lists no
// arrays and moves no data.

#include "trireme/model/param_table.h"

namespace trireme {

Shape stacked(const ParamSpec& spec, std::int64_t n_layers);  // shape of the array
Box stacked(const ParamSpec& spec, const Box& box);           // of the parameter, in its array

}  // namespace trireme
