#pragma once
// Memory that the ranks of one node share: one zeroed segment per rank, readable and writable by all of them, also when
// MPI is stuck. Nothing of it is left in the file system, whatever happens to the processes. No locks, no messages.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

class NodeMemory {
 public:
  enum class Role : std::uint8_t { creates, opens };
  // `name` is a file of /dev/shm ("/something"). Throws Error.
  NodeMemory(const std::string& name, Role role, std::size_t bytes_per_rank, int n_ranks);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  std::byte* of(int local_rank) const { return data_ + static_cast<std::size_t>(local_rank) * bytes_per_rank_; }
  int n_ranks() const { return n_ranks_; }
  static void remove_name(const std::string& name);  // the memory stays for those who have it open

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_per_rank_;
  int n_ranks_;
};

}  // namespace trireme
