#include "mpi_types.h"

#include <cmath>
#include <string>

#include "mpi_calls.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// MPI's signature; n is the number of elements, y is both input and output.
template <class Half>
void add_halves(void* x_n, void* y_n, int* n, MPI_Datatype*) {
  const auto* x = static_cast<const Half*>(x_n);
  auto* y = static_cast<Half*>(y_n);
  for (int i = 0; i < *n; ++i) y[i] = Half(static_cast<float>(x[i]) + static_cast<float>(y[i]));
}

template <class Half>
void max_halves(void* x_n, void* y_n, int* n, MPI_Datatype*) {
  const auto* x = static_cast<const Half*>(x_n);
  auto* y = static_cast<Half*>(y_n);
  for (int i = 0; i < *n; ++i) {
    if (static_cast<float>(x[i]) > static_cast<float>(y[i])) y[i] = x[i];
  }
}

MPI_Op commutative(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  check_mpi(MPI_Op_create(function, 1, &op), "MPI_Op_create");
  return op;
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f32:
      return MPI_FLOAT;
    case DType::i64:
      return MPI_INT64_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return MPI_UINT16_T;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

MpiReductions MpiReductions::create() {
  MpiReductions ops;
  ops.bf16_sum = commutative(add_halves<Bf16>);
  ops.bf16_max = commutative(max_halves<Bf16>);
  ops.f16_sum = commutative(add_halves<F16>);
  ops.f16_max = commutative(max_halves<F16>);
  return ops;
}

void MpiReductions::release() {
  for (MPI_Op* op : {&bf16_sum, &bf16_max, &f16_sum, &f16_max}) check_mpi(MPI_Op_free(op), "MPI_Op_free");
}

MPI_Op MpiReductions::of(Reduce reduce, DType dtype) const {
  const bool is_float8 = dtype == DType::e4m3 || dtype == DType::e5m2;
  require(!is_float8, std::string(name_of(dtype)) + " cannot be reduced: convert it first");
  const bool is_sum = reduce == Reduce::sum;
  if (dtype == DType::bf16) return is_sum ? bf16_sum : bf16_max;
  if (dtype == DType::f16) return is_sum ? f16_sum : f16_max;
  return is_sum ? MPI_SUM : MPI_MAX;
}

}  // namespace trireme
