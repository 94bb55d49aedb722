#pragma once
// The ranks that share a file: what they agree on between collective calls. One rank alone never calls MPI. Who waits
// for others sleeps: a save runs beside a training that needs the cores.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trireme/comm/communicator.h"

namespace trireme {

class Ranks {
 public:
  explicit Ranks(const Communicator& control);
  int rank() const { return rank_; }
  bool alone() const { return size_ == 1; }
  std::intptr_t mpi_comm() const { return comm_; }  // of more than one rank

  std::string broadcast(const std::string& text) const;  // rank 0's

  // Element by element over the ranks, in place. sum wraps.
  void max(std::span<std::int64_t> values) const;
  void sum(std::span<std::uint64_t> values) const;

  // Runs `work` on every rank. What any of them throws (the lowest rank's, if several) is thrown on all, so that every
  // rank leaves by the same way and no one waits for the others in a collective call.
  void together(const std::function<void()>& work) const;
  // The same, with `work` on rank 0 only.
  void first_alone(const std::function<void()>& work) const;

 private:
  void agree(int code, const std::string& error) const;

  int rank_, size_;
  std::intptr_t comm_ = 0;
};

}  // namespace trireme
