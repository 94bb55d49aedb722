#pragma once
// The ranks on one line or plane of the process grid, and what they say to each other. Calls are in order, like kernels
// on the compute stream. size() == 1 is a no-op inside, so no layer ever asks. Destructors do not communicate.
//
// Every rank of a communicator makes the same collective calls in the same order, with contiguous tensors of one dtype
// and count. The same number of ranks gives the same bits in every run and on every rank. Sums of bf16 and f16 are
// added in f32 and rounded once per hop (at most size - 1 times). max of NaN is unspecified. An empty tensor is not
// sent.

#include <functional>
#include <memory>
#include <string>

#include "trireme/device/tensor.h"

namespace trireme {

enum class Reduce : std::uint8_t { sum, max };

// Handle of background communication. wait() makes the compute stream (CPU: the thread) wait; never forget it. It may
// need the other ranks to wait for theirs of the same call: between a call and its wait(), wait for nothing that
// another rank does only after its own.
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

  virtual void all_reduce(Tensor x, Reduce op) = 0;          // in place
  virtual void all_gather(Tensor all, Tensor mine) = 0;      // dimension 0 concatenated; mine may be all's own slice
  virtual void reduce_scatter(Tensor mine, Tensor all) = 0;  // sum; mine may be all's own slice, all is then destroyed
  virtual void broadcast(Tensor x, int root) = 0;
  virtual void shift(Tensor from_left, Tensor to_right) = 0;  // a ring: rank r sends to r+1, receives from r-1
  virtual void send(Tensor x, int to) = 0;
  virtual void recv(Tensor x, int from) = 0;
  virtual void barrier() = 0;

  // Runs `work` beside the computation, after everything enqueued so far; the only way to overlap. The operations
  // inside one `work` may run at the same time, so none may depend on another. Buffers stay untouched until wait(). A
  // background send is met by a background recv (a blocking one never sees it), in the order of the calls to
  // background.
  [[nodiscard]] virtual Ticket background(const std::function<void(Communicator&)>& work) = 0;

  // Sub-communicator of the ranks with the same color, ordered by key. Collective, start-up only.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // What reports call it; most keep no name.
  virtual void rename(const std::string&) {}

  // Who speaks for these ranks at start-up and to files: itself, or the communicator that it was made from.
  virtual const Communicator& control() const { return *this; }
};

class Backend;
// One rank alone. Copies on `backend` where input and output are different memory; send and recv are our bug.
std::unique_ptr<Communicator> make_self_communicator(Backend& backend);
// Pretends to be rank `rank` of `size`: moves nothing, adds the bytes this rank would send to *bytes_sent. Collectives
// count as rings: all_reduce 2(n-1)/n, all_gather and reduce_scatter (n-1)/n of the whole, broadcast its bytes once.
std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent);
// The same, and tells a meter (null: none) of every operation; stride: ranks of the job between neighbours.
class Meter;
struct PlanWires {
  Meter* meter = nullptr;
  int stride = 1;
};
std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent, const PlanWires& wires);

}  // namespace trireme
