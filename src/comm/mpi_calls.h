#pragma once
// The MPI calls that communicators are made of, blocking and started, behind one interface. Raw host memory, counts
// that fit int; no tensors, no staging, no cutting.

#include <mpi.h>

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

// Every call only starts; finish() waits for all of them. The memory belongs to MPI until then.
class StartedCalls final : public MpiCalls {
 public:
  explicit StartedCalls(MPI_Comm comm) : comm_(comm) {}
  void all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) override;
  void all_gather(void* all, const void* mine, int n, MPI_Datatype type) override;
  void reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) override;
  void reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) override;
  void broadcast(void* x, int n, MPI_Datatype type, int root) override;
  void send(const void* x, int n, MPI_Datatype type, int to) override;
  void recv(void* x, int n, MPI_Datatype type, int from) override;
  void finish();

 private:
  // A request with what is needed to judge its end. count is what a receive must deliver, -1 for everything else.
  struct Started {
    MPI_Request request;
    const char* operation;
    MPI_Datatype type;
    int count;
  };
  void keep(MPI_Request request, const char* operation) { started_.push_back({request, operation, MPI_BYTE, -1}); }

  MPI_Comm comm_;
  std::vector<Started> started_;
};

}  // namespace trireme
