#pragma once
// Between the tensors of a Backend and the host memory that MPI sees: pinned buffers and the copies that end a
// transfer.

#include <memory>
#include <vector>

#include "mpi_calls.h"
#include "trireme/comm/mpi.h"

namespace trireme {

// Pinned buffers, grown at first use and kept: a training step repeats the same leases and allocates nothing.
class PinnedPool {
 public:
  struct Buffer {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool leased = false;
  };
  explicit PinnedPool(Backend& backend) : backend_(backend) {}
  ~PinnedPool();  // a buffer still leased may be in MPI's hands: it is left alone
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  Buffer& lease(std::size_t bytes);

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Operations on their way. land() waits for them, brings what was received to its tensors and gives the buffers back.
class Flight {
 public:
  Flight(MPI_Comm comm, Turns& turns, Backend& backend, Memory memory, PinnedPool& pool)
      : calls(comm, turns), backend_(backend), memory_(memory), pool_(pool) {}

  // Host memory that stands for x until land(): its own or a buffer. filled: with the values of x.
  std::byte* empty(const Tensor& x);
  std::byte* filled(const Tensor& x);
  void deliver(const Tensor& x, const std::byte* from);  // copies at land(), unless `from` is x's own memory
  void land();
  bool idle() const { return idle_; }
  void take_off() { idle_ = false; }

  StartedCalls calls;

 private:
  struct Delivery {
    Tensor x;
    const std::byte* from;
  };
  Backend& backend_;
  Memory memory_;
  PinnedPool& pool_;
  std::vector<PinnedPool::Buffer*> buffers_;
  std::vector<Delivery> deliveries_;
  bool idle_ = true;
};

}  // namespace trireme
