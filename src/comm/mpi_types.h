#pragma once
// Our dtypes and reductions in MPI's words. 16-bit floats are unknown to MPI: they travel as 16-bit integers and are
// added by operators of ours, in f32 and rounded to nearest even at every hop.

#include <mpi.h>

#include "trireme/base/dtype.h"
#include "trireme/comm/communicator.h"

namespace trireme {

MPI_Datatype mpi_type(DType dtype);

// The operators of 16-bit floats: made after MPI_Init, released before MPI_Finalize by the session. A copy is a handle.
struct MpiReductions {
  MPI_Op bf16_sum = MPI_OP_NULL, bf16_max = MPI_OP_NULL, f16_sum = MPI_OP_NULL, f16_max = MPI_OP_NULL;

  static MpiReductions create();
  void release();
  MPI_Op of(Reduce reduce, DType dtype) const;
};

}  // namespace trireme
