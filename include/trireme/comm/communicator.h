#pragma once
// The ranks on one line or plane of the process grid, and what they say to each other. Calls are in order, like kernels on
// the compute stream. size() == 1 is a no-op inside, so no layer ever asks. Destructors do not communicate.

#include <functional>
#include <memory>

#include "trireme/device/tensor.h"

namespace trireme {

enum class Reduce : std::uint8_t { sum, max };

// Handle of background communication. wait() makes the compute stream (CPU: the thread) wait; never forget it.
struct Ticket {
  std::function<void()> join;
  void wait() {
    if (join) join();
    join = nullptr;
  }
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void all_reduce(Tensor x, Reduce op) = 0;              // in place
  virtual void all_gather(Tensor all, Tensor mine) = 0;          // dimension 0 concatenated; mine may be all's own slice
  virtual void reduce_scatter(Tensor mine, Tensor all) = 0;      // sum; mine may be all's own slice, all is then destroyed
  virtual void broadcast(Tensor x, int root) = 0;
  virtual void shift(Tensor from_left, Tensor to_right) = 0;     // one step of a ring: rank r sends to r+1, receives from r-1
  virtual void send(Tensor x, int to) = 0;
  virtual void recv(Tensor x, int from) = 0;
  virtual void barrier() = 0;

  // Runs `work` beside the computation, after everything enqueued so far; the only way to overlap. The operations inside
  // one `work` may run at the same time, so none may depend on another. Buffers stay untouched until wait().
  [[nodiscard]] virtual Ticket background(const std::function<void(Communicator&)>& work) = 0;

  // Sub-communicator of the ranks with the same color, ordered by key. Collective, start-up only.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

class Backend;
std::unique_ptr<Communicator> make_self_communicator();
// Pretends to be rank `rank` of `size`: moves nothing, adds the bytes this rank would send to *bytes_sent.
std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent);

}  // namespace trireme
