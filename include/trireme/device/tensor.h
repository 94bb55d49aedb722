#pragma once
// A view of device memory: pointer, dtype, shape, and the distance between rows. It owns and frees nothing.
// The design asked for contiguous views only; the pitch is the one exception, as in BLAS ("ld"): q, k and v are columns
// of one fused GEMM output, and copying them out would cost a pass over memory in every layer.

#include <cstddef>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t pitch = 0;  // elements from one row of dimension 0 to the next; >= shape.columns()

  Tensor() = default;
  Tensor(std::byte* data, DType dtype, Shape shape) : data(data), dtype(dtype), shape(shape), pitch(shape.columns()) {}

  explicit operator bool() const { return data != nullptr; }  // an absent tensor (no bias, no mask) is Tensor{}
  std::int64_t rows() const { return shape[0]; }
  std::int64_t columns() const { return shape.columns(); }
  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  bool contiguous() const { return shape.rank == 0 || shape[0] <= 1 || pitch == shape.columns(); }

  Tensor slice_rows(std::int64_t first, std::int64_t count) const;     // part of dimension 0
  Tensor slice_columns(std::int64_t first, std::int64_t count) const;  // of a matrix; the pitch stays
  Tensor as(Shape other) const;                                        // same elements, another shape; contiguous only
  Tensor flat() const { return as({count()}); }

  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace trireme
