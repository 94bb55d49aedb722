#include "h5_ranks.h"

#include <mpi.h>

#include <array>

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

}  // namespace

Ranks::Ranks(const Communicator& control) : rank_(control.rank()), size_(control.size()) {
  if (size_ > 1) comm_ = mpi_handle(control);
}

void Ranks::max(std::span<std::int64_t> values) const {
  if (alone()) return;
  check_mpi(
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX, comm_of(comm_)),
      "MPI_Allreduce");
}

void Ranks::sum(std::span<std::uint64_t> values) const {
  if (alone()) return;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_UINT64_T, MPI_SUM,
                          comm_of(comm_)),
            "MPI_Allreduce");
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
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, comm_of(comm_)), "MPI_Allreduce");
  if (failed == size_) return;
  std::array<int, 2> head{code, static_cast<int>(error.size())};
  check_mpi(MPI_Bcast(head.data(), 2, MPI_INT, failed, comm_of(comm_)), "MPI_Bcast");
  std::string text = error;
  text.resize(static_cast<std::size_t>(head[1]));
  check_mpi(MPI_Bcast(text.data(), head[1], MPI_CHAR, failed, comm_of(comm_)), "MPI_Bcast");
  if (failed != 0) text = "rank " + std::to_string(failed) + ": " + text;
  throw Error(static_cast<Exit>(head[0]), text);
}

}  // namespace trireme
