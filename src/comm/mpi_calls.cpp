#include "mpi_calls.h"

#include <array>
#include <string>

namespace trireme {

namespace {

constexpr int k_tag = 0;

std::string text_of(int rc) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(rc, text.data(), &length) != MPI_SUCCESS) return "unknown error " + std::to_string(rc);
  return {text.data(), static_cast<std::size_t>(length)};
}

// MPI is content with a message shorter than the buffer; we are not.
void check_count(const MPI_Status& status, MPI_Datatype type, int expected) {
  int received = 0;
  check_mpi(MPI_Get_count(&status, type, &received), "MPI_Get_count");
  if (received == expected) return;
  require(false, "rank " + std::to_string(status.MPI_SOURCE) + " sent " + std::to_string(received) +
                     " elements where " + std::to_string(expected) + " were expected");
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

}  // namespace

void check_mpi(int rc, const char* operation, Where where) {
  if (rc == MPI_SUCCESS) return;
  throw Error(Exit::rank, std::string(operation) + " failed: " + text_of(rc) + " (" + where.file + ":" +
                              std::to_string(where.line) + "); mostly another rank has ended: see its message");
}

MPI_Comm returning_errors(MPI_Comm comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

// --- blocking

void BlockingCalls::all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, x, n, type, op, comm_), "MPI_Allreduce");
}

void BlockingCalls::all_gather(void* all, const void* mine, int n, MPI_Datatype type) {
  check_mpi(MPI_Allgather(mine != nullptr ? mine : MPI_IN_PLACE, n, type, all, n, type, comm_), "MPI_Allgather");
}

void BlockingCalls::reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) {
  check_mpi(MPI_Reduce_scatter_block(all != nullptr ? all : MPI_IN_PLACE, mine, n, type, op, comm_),
            "MPI_Reduce_scatter_block");
}

void BlockingCalls::reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) {
  const bool in_place = rank_in(comm_) == root && sum_at_root == x;
  check_mpi(MPI_Reduce(in_place ? MPI_IN_PLACE : x, sum_at_root, n, type, op, root, comm_), "MPI_Reduce");
}

void BlockingCalls::broadcast(void* x, int n, MPI_Datatype type, int root) {
  check_mpi(MPI_Bcast(x, n, type, root, comm_), "MPI_Bcast");
}

void BlockingCalls::send(const void* x, int n, MPI_Datatype type, int to) {
  check_mpi(MPI_Send(x, n, type, to, k_tag, comm_), "MPI_Send");
}

void BlockingCalls::recv(void* x, int n, MPI_Datatype type, int from) {
  MPI_Status status;
  check_mpi(MPI_Recv(x, n, type, from, k_tag, comm_, &status), "MPI_Recv");
  check_count(status, type, n);
}

// --- turns

namespace {

// Two: one is added up while the other is on the wires.
constexpr std::size_t k_copying = 2;

}  // namespace

void Turns::add(StartedCall& call) {
  queue_.push_back(&call);
  start_what_may();
}

void Turns::start_what_may() {
  while (!queue_.empty() && (copying_.size() < k_copying || !queue_.front()->copies)) {
    StartedCall& call = *queue_.front();
    queue_.pop_front();
    call.request = call.start();
    call.start = nullptr;
    if (call.copies) copying_.push_back(&call);
  }
}

void Turns::finish(StartedCall& call) {
  while (call.start) finish(*copying_.front());
  check_mpi(MPI_Wait(&call.request, MPI_STATUS_IGNORE), call.operation);
  std::erase(copying_, &call);
  start_what_may();
}

// --- started

void StartedCalls::collective(const char* operation, Copies copies, std::function<MPI_Request()> start) {
  turns_.add(started_.emplace_back(StartedCall{operation, std::move(start), copies == Copies::yes}));
}

void StartedCalls::all_reduce(void* x, int n, MPI_Datatype type, MPI_Op op) {
  collective("MPI_Iallreduce", Copies::yes, [=, this] {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, x, n, type, op, comm_, &request), "MPI_Iallreduce");
    return request;
  });
}

void StartedCalls::all_gather(void* all, const void* mine, int n, MPI_Datatype type) {
  collective("MPI_Iallgather", Copies::no, [=, this] {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(mine != nullptr ? mine : MPI_IN_PLACE, n, type, all, n, type, comm_, &request),
              "MPI_Iallgather");
    return request;
  });
}

void StartedCalls::reduce_scatter(void* mine, const void* all, int n, MPI_Datatype type, MPI_Op op) {
  collective("MPI_Ireduce_scatter_block", Copies::yes, [=, this] {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ireduce_scatter_block(all != nullptr ? all : MPI_IN_PLACE, mine, n, type, op, comm_, &request),
              "MPI_Ireduce_scatter_block");
    return request;
  });
}

void StartedCalls::reduce(void* sum_at_root, const void* x, int n, MPI_Datatype type, MPI_Op op, int root) {
  const bool in_place = rank_in(comm_) == root && sum_at_root == x;
  collective("MPI_Ireduce", Copies::yes, [=, this] {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ireduce(in_place ? MPI_IN_PLACE : x, sum_at_root, n, type, op, root, comm_, &request), "MPI_Ireduce");
    return request;
  });
}

void StartedCalls::broadcast(void* x, int n, MPI_Datatype type, int root) {
  collective("MPI_Ibcast", Copies::no, [=, this] {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(x, n, type, root, comm_, &request), "MPI_Ibcast");
    return request;
  });
}

void StartedCalls::send(const void* x, int n, MPI_Datatype type, int to) {
  StartedCall& call = started_.emplace_back(StartedCall{"MPI_Isend", nullptr});
  check_mpi(MPI_Isend(x, n, type, to, k_tag, comm_, &call.request), call.operation);
}

void StartedCalls::recv(void* x, int n, MPI_Datatype type, int from) {
  StartedCall& call = started_.emplace_back(StartedCall{"MPI_Irecv", nullptr});
  check_mpi(MPI_Irecv(x, n, type, from, k_tag, comm_, &call.request), call.operation);
  call.type = type;
  call.count = n;
}

void StartedCalls::finish() {
  for (StartedCall& call : started_) {
    if (call.count < 0) {
      turns_.finish(call);
      continue;
    }
    MPI_Status status;
    check_mpi(MPI_Wait(&call.request, &status), call.operation);
    check_count(status, call.type, call.count);
  }
  started_.clear();
}

}  // namespace trireme
