#include "arguments.h"
#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"
#include "trireme/device/meter.h"

namespace trireme {

namespace {

class PlanCommunicator final : public Communicator {
 public:
  PlanCommunicator(int rank, int size, double* bytes_sent, const PlanWires& wires)
      : rank_(rank), size_(size), bytes_sent_(bytes_sent), wires_(wires) {
    require(bytes_sent != nullptr && 0 <= rank && rank < size,
            "a plan communicator needs 0 <= rank < size and a counter");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(Tensor x, Reduce) override {
    require_contiguous(x);
    add(2 * others() * bytes_of(x), ExchangeKind::all_reduce, x);
  }
  void all_gather(Tensor all, Tensor mine) override {
    require_parts(all, mine, size_);
    add(others() * bytes_of(all), ExchangeKind::all_gather, all);
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    require_parts(all, mine, size_);
    add(others() * bytes_of(all), ExchangeKind::reduce_scatter, all);
  }
  void broadcast(Tensor x, int root) override {
    require_contiguous(x);
    require(0 <= root && root < size_, "broadcast from a rank outside the communicator");
    add(bytes_of(x), ExchangeKind::broadcast, x);
  }
  void shift(Tensor from_left, Tensor to_right) override {
    require_pair(from_left, to_right);
    add(bytes_of(to_right), ExchangeKind::shift, to_right);
  }
  void send(Tensor x, int to) override {
    require_peer(x, to);
    add(bytes_of(x), ExchangeKind::send, x);
  }
  void recv(Tensor x, int from) override { require_peer(x, from); }
  void barrier() override {}

  Ticket background(const std::function<void(Communicator&)>& work) override {
    beside_ = true;
    end_ = 0;
    work(*this);
    beside_ = false;
    if (wires_.meter == nullptr || end_ == 0) return {};
    return {[meter = wires_.meter, end = end_] { meter->wait(end); }};
  }
  std::unique_ptr<Communicator> split(int, int) override {
    require(false, "a plan communicator cannot know the colors of other ranks: use ProcessGrid::planned");
    return nullptr;
  }

 private:
  static double bytes_of(const Tensor& x) { return static_cast<double>(x.bytes()); }
  double others() const { return static_cast<double>(size_ - 1) / size_; }  // share of the data that is not this rank's
  void add(double bytes, ExchangeKind kind, const Tensor& whole) {
    if (size_ == 1) return;
    *bytes_sent_ += bytes;
    if (wires_.meter == nullptr || whole.count() == 0) return;
    const Exchange exchange{kind, size_, wires_.stride, bytes_of(whole)};
    if (beside_) end_ = wires_.meter->exchange_beside(exchange, this);
    if (!beside_) wires_.meter->exchange(exchange);
  }
  void require_peer(const Tensor& x, int peer) const {
    require_contiguous(x);
    require(0 <= peer && peer < size_ && peer != rank_, "send and recv need another rank of the communicator");
  }

  int rank_, size_;
  double* bytes_sent_;
  PlanWires wires_;
  bool beside_ = false;  // inside background()
  double end_ = 0;       // of what was begun there last
};

}  // namespace

std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent) {
  return std::make_unique<PlanCommunicator>(rank, size, bytes_sent, PlanWires{});
}

std::unique_ptr<Communicator> make_plan_communicator(int rank, int size, double* bytes_sent, const PlanWires& wires) {
  return std::make_unique<PlanCommunicator>(rank, size, bytes_sent, wires);
}

}  // namespace trireme
