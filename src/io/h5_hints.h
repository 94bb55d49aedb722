#pragma once
// Hints as MPI wants them. Only for the h5*.cpp files.

#include <mpi.h>

#include "h5.h"

namespace trireme {

class MpiHints {
 public:
  explicit MpiHints(const Hints& hints);
  ~MpiHints();
  MpiHints(const MpiHints&) = delete;
  MpiHints& operator=(const MpiHints&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace trireme
