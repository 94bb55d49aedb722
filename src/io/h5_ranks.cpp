#include "h5_ranks.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"

namespace trireme {

namespace {

MPI_Comm comm_of(std::intptr_t handle) {
  return (MPI_Comm)handle;
}  // a pointer in some MPI libraries, an int in others

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS)
    throw Error(Exit::rank, std::string(call) + " failed around a checkpoint: another rank is gone");
}

// Until MPI has done what was started. Messages of other threads do not hurry it, sleeping costs them nothing.
void wait_asleep(MPI_Request request, const char* call) {
  constexpr std::chrono::microseconds k_longest{1000};
  std::chrono::microseconds pause{10};
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done != 0) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, k_longest);
  }
}

void all_reduce(void* values, std::size_t n, MPI_Datatype type, MPI_Op op, std::intptr_t comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(n), type, op, comm_of(comm), &request),
            "MPI_Iallreduce");
  wait_asleep(request, "MPI_Iallreduce");
}

void broadcast_from(int root, void* values, std::size_t n, MPI_Datatype type, std::intptr_t comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(values, static_cast<int>(n), type, root, comm_of(comm), &request), "MPI_Ibcast");
  wait_asleep(request, "MPI_Ibcast");
}

}  // namespace

Ranks::Ranks(const Communicator& control) : rank_(control.rank()), size_(control.size()) {
  if (size_ > 1) comm_ = mpi_handle(control);
}

std::string Ranks::broadcast(const std::string& text) const {
  if (alone()) return text;
  auto length = static_cast<std::int64_t>(text.size());
  broadcast_from(0, &length, 1, MPI_INT64_T, comm_);
  std::string received = text;
  received.resize(static_cast<std::size_t>(length));
  broadcast_from(0, received.data(), received.size(), MPI_CHAR, comm_);
  return received;
}

void Ranks::max(std::span<std::int64_t> values) const {
  if (!alone()) all_reduce(values.data(), values.size(), MPI_INT64_T, MPI_MAX, comm_);
}

void Ranks::sum(std::span<std::uint64_t> values) const {
  if (!alone()) all_reduce(values.data(), values.size(), MPI_UINT64_T, MPI_SUM, comm_);
}

void Ranks::together(const std::function<void()>& work) const {
  if (alone()) return work();
  int code = 0;
  std::string error;
  try {
    work();
  } catch (const Error& e) {
    code = static_cast<int>(e.code);
    error = e.what();
  } catch (const std::exception& e) {
    code = static_cast<int>(Exit::failed);
    error = e.what();
  }
  agree(code, error);
}

void Ranks::first_alone(const std::function<void()>& work) const {
  together([&] {
    if (rank_ == 0) work();
  });
}

void Ranks::agree(int code, const std::string& error) const {
  int failed = code == 0 ? size_ : rank_;
  all_reduce(&failed, 1, MPI_INT, MPI_MIN, comm_);
  if (failed == size_) return;
  std::array<int, 2> head{code, static_cast<int>(error.size())};
  broadcast_from(failed, head.data(), head.size(), MPI_INT, comm_);
  std::string text = error;
  text.resize(static_cast<std::size_t>(head[1]));
  broadcast_from(failed, text.data(), text.size(), MPI_CHAR, comm_);
  if (failed != 0) text = "rank " + std::to_string(failed) + ": " + text;
  throw Error(static_cast<Exit>(head[0]), text);
}

}  // namespace trireme
