#include "arguments.h"
#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"
#include "trireme/device/backend.h"

namespace trireme {

namespace {

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(Backend& backend) : backend_(backend) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(Tensor x, Reduce) override { require_contiguous(x); }
  void all_gather(Tensor all, Tensor mine) override {
    require_parts(all, mine, 1);
    copy(all, mine);
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    require_parts(all, mine, 1);
    copy(mine, all);
  }
  void broadcast(Tensor x, int root) override {
    require_contiguous(x);
    require(root == 0, "broadcast from a rank that one rank alone does not have");
  }
  void shift(Tensor from_left, Tensor to_right) override {
    require_pair(from_left, to_right);
    copy(from_left, to_right);
  }
  void send(Tensor, int) override { require(false, "send on a communicator of one rank"); }
  void recv(Tensor, int) override { require(false, "recv on a communicator of one rank"); }
  void barrier() override {}

  Ticket background(const std::function<void(Communicator&)>& work) override {
    work(*this);
    return {};
  }
  std::unique_ptr<Communicator> split(int, int) override { return make_self_communicator(backend_); }

 private:
  // As flat vectors: the shapes of the two sides may differ, their counts do not.
  void copy(const Tensor& dst, const Tensor& src) {
    if (dst.data != src.data && dst.count() > 0) backend_.copy(dst.flat(), src.flat());
  }

  Backend& backend_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(Backend& backend) {
  return std::make_unique<SelfCommunicator>(backend);
}

}  // namespace trireme
