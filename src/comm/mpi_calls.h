#pragma once
// The MPI calls that communicators are made of, blocking and started, behind one interface. Raw host memory, counts
// that fit int; no tensors, no staging, no cutting.

#include <mpi.h>

#include <deque>
#include <functional>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

// MPI's own text and the name of the operation as an Error of Exit::rank.
void check_mpi(int rc, const char* operation, Where where = Where::here());

// Handle of a new communicator whose errors return, so that check_mpi sees them. Collective.
MPI_Comm returning_errors(MPI_Comm comm);

class MpiCalls {
 public:
  virtual ~MpiCalls() = default;
  virtual void all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) = 0;  // in place
  // mine: n elements, absent (nullptr) when they lie in all already.
  virtual void all_gather(void* all, const void* mine, int n, MPI_Datatype type) = 0;
  // all: size * n elements, absent when they lie in mine, which then has room for all; the result begins at mine.
  virtual void reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) = 0;
  // sum_at_root is read on the root only, where it may be x.
  virtual void reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) = 0;
  virtual void broadcast(void* x, int n, MPI_Datatype type, int root) = 0;
  virtual void send(const void* x, int n, MPI_Datatype type, int to) = 0;
  virtual void recv(void* x, int n, MPI_Datatype type, int from) = 0;
};

class BlockingCalls final : public MpiCalls {
 public:
  explicit BlockingCalls(MPI_Comm comm) : comm_(comm) {}
  void all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) override;
  void all_gather(void* all, const void* mine, int n, MPI_Datatype type) override;
  void reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) override;
  void reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) override;
  void broadcast(void* x, int n, MPI_Datatype type, int root) override;
  void send(const void* x, int n, MPI_Datatype type, int to) override;
  void recv(void* x, int n, MPI_Datatype type, int from) override;

 private:
  MPI_Comm comm_;
};

// A call that is on its way, or will be.
struct StartedCall {
  const char* operation;
  std::function<MPI_Request()> start;  // absent: it has been started
  bool copies = false;                 // MPI copies what it reduces
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype type = MPI_BYTE;
  int count = -1;  // what a receive must deliver, -1 for everything else
};

// The collective calls of one communicator: they start in the order asked for, which is the same on all ranks, and of
// those that copy few run at a time, so that what MPI takes for itself does not grow with what is reduced.
class Turns {
 public:
  void add(StartedCall& call);     // its address stays until finish()
  void finish(StartedCall& call);  // waits; starts what is due before and behind it

 private:
  void start_what_may();

  std::deque<StartedCall*> queue_;     // not started
  std::vector<StartedCall*> copying_;  // started, not waited for
};

// Every call only starts, at once or in its turn; finish() waits for all of them. The memory belongs to MPI until then.
class StartedCalls final : public MpiCalls {
 public:
  StartedCalls(MPI_Comm comm, Turns& turns) : comm_(comm), turns_(turns) {}
  void all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) override;
  void all_gather(void* all, const void* mine, int n, MPI_Datatype type) override;
  void reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) override;
  void reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) override;
  void broadcast(void* x, int n, MPI_Datatype type, int root) override;
  void send(const void* x, int n, MPI_Datatype type, int to) override;
  void recv(void* x, int n, MPI_Datatype type, int from) override;
  void finish();

 private:
  enum class Copies : bool { no, yes };
  void collective(const char* operation, Copies copies, std::function<MPI_Request()> start);

  MPI_Comm comm_;
  Turns& turns_;
  std::deque<StartedCall> started_;
};

}  // namespace trireme
