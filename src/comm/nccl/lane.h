#pragma once
// Operations of one NCCL communicator on one CUDA stream, enqueued and not waited for.
// It does not overlap anything by itself: the communicator made of two lanes does.

#include <cuda_runtime.h>
#include <nccl.h>

#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"

namespace trireme {

void check(ncclResult_t code, Where where = Where::here());

class Lane : public Communicator {
 public:
  // Collective: every rank of the id joins.
  Lane(const ncclUniqueId& id, int rank, int size, cudaStream_t stream);
  ~Lane() override;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Tensor x, Reduce op) override;
  void all_gather(Tensor all, Tensor mine) override;
  void reduce_scatter(Tensor mine, Tensor all) override;
  void broadcast(Tensor x, int root) override;
  void shift(Tensor from_left, Tensor to_right) override;
  void send(Tensor x, int to) override;
  void recv(Tensor x, int from) override;
  void barrier() override;
  Ticket background(const std::function<void(Communicator&)>& work) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

  // Throws when NCCL has met an error since, on any rank that it heard of. Cheap.
  void poll() const;

 private:
  ncclComm_t comm_ = nullptr;
  int rank_, size_;
  cudaStream_t stream_;
  int exceptions_;  // in flight at construction
};

}  // namespace trireme
