#pragma once
// What the h5*.cpp files share: checked calls, and our element types as HDF5 types.

#include <hdf5.h>

#include <array>
#include <string>

#include "h5.h"
#include "trireme/base/shape.h"

namespace trireme {

// Throws Error(Exit::data) with `what` and HDF5's error stack when the result of a call is negative; returns it
// otherwise. One function per kind of result: ids, counts and statuses differ in width.
std::int64_t check_h5(std::int64_t result, const std::string& what);

// HDF5 prints its error stack on stderr unless told otherwise, once per process.
void silence_h5();

H5Object make_properties(std::int64_t kind);

using Sizes = std::array<hsize_t, 4>;
Sizes sizes_of(const Shape& shape);

// bf16 and f16 are true floating-point types: h5py and h5dump show numbers. The two fp8 types are stored as u8.
H5Object type_of(DType dtype);

}  // namespace trireme
