#include "trireme/comm/traced.h"

namespace trireme {

namespace {

std::int64_t bytes_of(const Tensor& x) {
  return static_cast<std::int64_t>(x.bytes());
}

// Ranks of one new communicator share the old one, the number of the split and the color: no message is needed to give
// it one name everywhere. (The finaliser of SplitMix64.)
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15U + b + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Inside background(): every operation is begun, none is waited for.
class TracedLane final : public Communicator {
 public:
  struct Begun {
    std::int64_t first = 0, last = 0;  // numbers; 0: nothing
  };
  TracedLane(Communicator& inner, Recorder& recorder, int index, Begun& begun)
      : inner_(inner), recorder_(recorder), index_(index), begun_(begun) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(Tensor x, Reduce op) override { note(Operation::all_reduce, x), inner_.all_reduce(x, op); }
  void all_gather(Tensor all, Tensor mine) override { note(Operation::all_gather, all), inner_.all_gather(all, mine); }
  void reduce_scatter(Tensor mine, Tensor all) override {
    note(Operation::reduce_scatter, all);
    inner_.reduce_scatter(mine, all);
  }
  void broadcast(Tensor x, int root) override { note(Operation::broadcast, x), inner_.broadcast(x, root); }
  void shift(Tensor from, Tensor to) override { note(Operation::shift, to), inner_.shift(from, to); }
  void send(Tensor x, int to) override { note(Operation::send, x), inner_.send(x, to); }
  void recv(Tensor x, int from) override { note(Operation::recv, x), inner_.recv(x, from); }
  void barrier() override { inner_.barrier(); }
  Ticket background(const std::function<void(Communicator&)>& work) override { return inner_.background(work); }
  std::unique_ptr<Communicator> split(int color, int key) override { return inner_.split(color, key); }
  const Communicator& control() const override { return inner_.control(); }

 private:
  void note(Operation operation, const Tensor& x) {
    begun_.last = recorder_.begin(index_, operation, bytes_of(x));
    if (begun_.first == 0) begun_.first = begun_.last;
  }

  Communicator& inner_;
  Recorder& recorder_;
  int index_;
  Begun& begun_;
};

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(std::unique_ptr<Communicator> inner, Recorder& recorder, const std::string& name, std::uint64_t id)
      : inner_(std::move(inner)), recorder_(recorder), id_(id), index_(recorder.add(id, name, inner_->size())) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void rename(const std::string& name) override { recorder_.rename(index_, name); }

  void all_reduce(Tensor x, Reduce op) override {
    const Waiting here(&recorder_, index_, Operation::all_reduce, bytes_of(x));
    inner_->all_reduce(x, op);
  }
  void all_gather(Tensor all, Tensor mine) override {
    const Waiting here(&recorder_, index_, Operation::all_gather, bytes_of(all));
    inner_->all_gather(all, mine);
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    const Waiting here(&recorder_, index_, Operation::reduce_scatter, bytes_of(all));
    inner_->reduce_scatter(mine, all);
  }
  void broadcast(Tensor x, int root) override {
    const Waiting here(&recorder_, index_, Operation::broadcast, bytes_of(x));
    inner_->broadcast(x, root);
  }
  void shift(Tensor from, Tensor to) override {
    const Waiting here(&recorder_, index_, Operation::shift, bytes_of(to));
    inner_->shift(from, to);
  }
  void send(Tensor x, int to) override {
    const Waiting here(&recorder_, index_, Operation::send, bytes_of(x));
    inner_->send(x, to);
  }
  void recv(Tensor x, int from) override {
    const Waiting here(&recorder_, index_, Operation::recv, bytes_of(x));
    inner_->recv(x, from);
  }
  void barrier() override {
    const Waiting here(&recorder_, index_, Operation::barrier, 0);
    inner_->barrier();
  }

  Ticket background(const std::function<void(Communicator&)>& work) override {
    TracedLane::Begun begun;
    Ticket inner = inner_->background([&](Communicator& lane) {
      TracedLane traced(lane, recorder_, index_, begun);
      work(traced);
    });
    if (!inner.join || begun.last == 0) return inner;
    return {[this, begun, join = std::move(inner.join)] {
      recorder_.enter_started(index_, begun.first, begun.last);
      join();
      recorder_.leave();
    }};
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::uint64_t id = mixed(mixed(id_, n_splits_++), static_cast<std::uint64_t>(color));
    return make_traced_communicator(inner_->split(color, key), recorder_, "part", id);
  }
  const Communicator& control() const override { return inner_->control(); }

 private:
  std::unique_ptr<Communicator> inner_;
  Recorder& recorder_;
  std::uint64_t id_, n_splits_ = 0;
  int index_;
};

}  // namespace

std::unique_ptr<Communicator> make_traced_communicator(std::unique_ptr<Communicator> inner, Recorder& recorder,
                                                       const std::string& name, std::uint64_t id) {
  if (inner->size() == 1) return inner;
  return std::make_unique<TracedCommunicator>(std::move(inner), recorder, name, id);
}

}  // namespace trireme
