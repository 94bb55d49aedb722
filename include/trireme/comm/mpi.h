#pragma once
// MPI for this process: start, end, identity, and communicators over it. MPI's own header appears only in
// src/comm/mpi*. CUDA tensors travel through pinned host memory of the Backend (device.comm = "mpi"), CPU tensors
// directly. Open MPI, MPICH and their kin choose a reduction's algorithm from sizes alone: the same ranks give the same
// bits.

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/comm/communicator.h"
#include "trireme/comm/node_memory.h"

namespace trireme {

class Backend;

// host: MPI reads and writes the tensors' memory. staged: they are copied through pinned memory, kept after its first
// use.
enum class Memory : std::uint8_t { host, staged };

// MPI_Init on construction, MPI_Finalize on destruction (unless an exception is unwinding: then the process aborts the
// job). One per process; also works without a launcher, as one rank. It asks for MPI_THREAD_MULTIPLE, so that a writer
// thread may one day use a communicator of its own, and is content with MPI_THREAD_FUNNELED: only the main thread calls
// MPI now.
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
  bool any_thread() const;  // MPI gave MPI_THREAD_MULTIPLE

  // From now on broadcast(), any() and largest() are recorded; null: no more.
  void record_with(Recorder* recorder) const;

  // Rank 0's text on every rank (decks are read once).
  std::string broadcast(const std::string& text) const;
  // True on all ranks when true on any.
  bool any(bool mine) const;
  // The largest of all ranks' numbers, on all ranks.
  std::int64_t largest(std::int64_t mine) const;
  // Memory shared by the ranks of this node, in the order of local_rank(). Collective.
  std::unique_ptr<NodeMemory> share_with_node(std::size_t bytes_per_rank) const;
  // For an error that this rank met alone: prints "trireme: rank 3 on host: text" and ends every rank with this exit
  // code within seconds. A lost connection (Exit::rank) waits a moment first: mostly another rank has more to say.
  [[noreturn]] void abort(int code, const std::string& text) const;
  [[noreturn]] void abort_now(int code, const std::string& text) const;  // the same for one who knows the cause
  // For an error that every rank met alike (a bad deck): rank 0 prints "trireme: text", all ranks finalize and exit.
  [[noreturn]] void end_together(int code, const std::string& text) const;

  // A new communicator of all ranks; collective. backend must outlive it.
  std::unique_ptr<Communicator> world(Backend& backend, Memory memory) const;
  // The same with at most max_bytes in one MPI call (1 GiB above): the counts of MPI are ints. For tests of the
  // cutting.
  std::unique_ptr<Communicator> world(Backend& backend, Memory memory, std::int64_t max_bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True when started by mpirun, srun or a PMI launcher: `trireme plan` and `deck` never need it.
bool launched_by_mpi();

// What is wrong when a launcher started several processes and MPI made each of them a job of its own; empty: nothing.
std::string launcher_problem(int mpi_size);

// MPI_Comm (as an integer handle) of communicator.control() for parallel HDF5; only src/io/h5.cpp uses it.
std::intptr_t mpi_handle(const Communicator& communicator);

}  // namespace trireme
