#pragma once
// MPI for this process: start, end, identity, and communicators over it. MPI's own header appears only in src/comm/mpi.cpp.
// CUDA tensors travel through pinned host memory of the Backend (device.comm = "mpi"), CPU tensors directly.

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"

namespace trireme {

class Backend;

// MPI_Init on construction, MPI_Finalize on destruction (unless an exception is unwinding: then the process aborts the job).
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this node
  int local_size() const;
  std::string host() const;

  // Rank 0's text on every rank (decks are read once).
  std::string broadcast(const std::string& text) const;
  // True on all ranks when true on any.
  bool any(bool mine) const;
  // Prints "rank 3 on host: text" and ends every rank with this exit code within seconds. Does not return.
  [[noreturn]] void abort(int code, const std::string& text) const;

  std::unique_ptr<Communicator> world(Backend& backend) const;  // memory must be host memory unless backend stages it
};

// True when started by mpirun, srun or a PMI launcher: `trireme plan` and `deck` never need it.
bool launched_by_mpi();

// MPI_Comm (as an integer handle) for parallel HDF5; only src/io/h5.cpp uses it.
std::intptr_t mpi_handle(const Communicator& communicator);

}  // namespace trireme
