#pragma once
// The Communicator over one MPI_Comm: staging and cutting of tensors, and the lane that background work runs on. The
// handles are never freed by destructors (that would be a collective call); MPI_Finalize takes them.

#include <mpi.h>

#include <memory>
#include <vector>

#include "mpi_calls.h"
#include "mpi_staging.h"
#include "mpi_types.h"
#include "trireme/comm/communicator.h"

namespace trireme {

// What a communicator stands on. Plain data; split() hands it on with another handle.
struct MpiGround {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  Backend* backend = nullptr;
  Memory memory = Memory::host;
  std::int64_t max_bytes = 0;    // of one MPI call
  std::int64_t max_reduced = 0;  // of one that reduces
  MpiReductions reductions;

  MpiGround on(MPI_Comm other) const;
};

// The operations, written once for blocking and started calls.
class MpiOperations : public Communicator {
 public:
  int rank() const override { return ground_.rank; }
  int size() const override { return ground_.size; }
  void all_reduce(Tensor x, Reduce op) override;
  void all_gather(Tensor all, Tensor mine) override;
  void reduce_scatter(Tensor mine, Tensor all) override;
  void broadcast(Tensor x, int root) override;
  void shift(Tensor from_left, Tensor to_right) override;
  void send(Tensor x, int to) override;
  void recv(Tensor x, int from) override;

 protected:
  explicit MpiOperations(const MpiGround& ground) : ground_(ground), pool_(*ground.backend) {}
  virtual MpiCalls& calls() = 0;
  virtual Flight& flight() = 0;
  virtual void done() = 0;  // after every operation

  MpiGround ground_;
  PinnedPool pool_;
  Turns turns_;

 private:
  void all_gather_in_pieces(std::byte* all, const Tensor& part);
  void reduce_scatter_in_pieces(std::byte* mine, const std::byte* all, const Tensor& part);
};

// Where background work runs: a communicator of its own, so that its messages never meet those of the main line.
// Large sums start piece by piece while somebody waits: a ticket may need the other ranks to wait for theirs of the
// same call, so that between a call and its wait() none may wait for what another does later.
class MpiLane final : public MpiOperations {
 public:
  explicit MpiLane(const MpiGround& ground) : MpiOperations(ground) {}
  Ticket run(const std::function<void(Communicator&)>& work);
  void barrier() override;
  Ticket background(const std::function<void(Communicator&)>& work) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  MpiCalls& calls() override { return current_->calls; }
  Flight& flight() override { return *current_; }
  void done() override {}

  std::vector<std::unique_ptr<Flight>> flights_;  // kept and used again
  Flight* current_ = nullptr;                     // while `work` runs
};

class MpiCommunicator final : public MpiOperations {
 public:
  explicit MpiCommunicator(const MpiGround& ground);  // collective
  void barrier() override;
  Ticket background(const std::function<void(Communicator&)>& work) override { return lane_.run(work); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  MPI_Comm handle() const { return ground_.comm; }

 private:
  MpiCalls& calls() override { return blocking_; }
  Flight& flight() override { return flight_; }
  void done() override { flight_.land(); }

  BlockingCalls blocking_;
  Flight flight_;
  MpiLane lane_;
};

// A self communicator when comm has one rank.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiGround& ground);

}  // namespace trireme
