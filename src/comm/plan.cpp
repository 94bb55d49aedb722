#include "arguments.h"
#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"

namespace trireme {

namespace {

class PlanCommunicator final : public Communicator {
 public:
  PlanCommunicator(int rank, int size, double* bytes_sent) : rank_(rank), size_(size), bytes_sent_(bytes_sent) {
    require(bytes_sent != nullptr && 0 <= rank && rank < size,
            "a plan communicator needs 0 <= rank < size and a counter");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Tensor x, Reduce) override {
    require_contiguous(x);
    add(2 * others() * bytes_of(x));
  }
  void all_gather(Tensor all, Tensor mine) override {
    require_parts(all, mine, size_);
    add(others() * bytes_of(all));
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    require_parts(all, mine, size_);
    add(others() * bytes_of(all));
  }
  void broadcast(Tensor x, int root) override {
    require_contiguous(x);
    require(0 <= root && root < size_, "broadcast from a rank outside the communicator");
    if (size_ > 1) add(bytes_of(x));
  }
  void shift(Tensor from_left, Tensor to_right) override {
    require_pair(from_left, to_right);
    if (size_ > 1) add(bytes_of(to_right));
  }
  void send(Tensor x, int to) override {
    require_peer(x, to);
    add(bytes_of(x));
  }
  void recv(Tensor x, int from) override { require_peer(x, from); }
  void barrier() override {}

  Ticket background(const std::function<void(Communicator&)>& work) override {
    work(*this);
    return {};
  }
  std::unique_ptr<Communicator> split(int, int) override {
    require(false, "a plan communicator cannot know the colors of other ranks: use ProcessGrid::planned");
    return nullptr;
  }

 private:
  static double bytes_of(const Tensor& x) { return static_cast<double>(x.bytes()); }
  double others() const { return static_cast<double>(size_ - 1) / size_; }  // share of the data that is not this rank's
  void add(double bytes) { *bytes_sent_ += bytes; }
  void require_peer(const Tensor& x, int peer) const {
    require_contiguous(x);
    require(0 <= peer && peer < size_ && peer != rank_, "send and recv need another rank of the communicator");
  }

  int rank_, size_;
  double* bytes_sent_;
};

}  // namespace

std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent) {
  return std::make_unique<PlanCommunicator>(rank, size, bytes_sent);
}

}  // namespace trireme
