#pragma once
// A meter that keeps time: one compute stream and one lane per communicator beside it, as on a GPU. What the program
// waits for is counted apart. It knows one rank; others are taken to be in step with it.

#include <algorithm>
#include <map>

#include "trireme/train/cost.h"

namespace trireme {

class StepClock final : public Meter {
 public:
  explicit StepClock(const Cost& cost) : cost_(cost) {}
  void product(const Product& p) override { now_ += cost_.product(p); }
  void attention(const AttentionShape& shape, DType dtype, double flops) override {
    now_ += cost_.attention(shape, dtype, flops, ProductKind::forward);
  }
  void attention_backward(const AttentionShape& shape, DType dtype, double flops) override {
    now_ += cost_.attention(shape, dtype, flops, ProductKind::dx);
  }
  void pass(Pass pass, double bytes) override { now_ += cost_.pass(pass, bytes); }
  void exchange(const Exchange& exchange) override { wait(now_ + cost_.exchange(exchange)); }
  double exchange_beside(const Exchange& exchange, const void* lane) override {
    double& end = lanes_[lane];
    return end = std::max(end, now_) + cost_.exchange(exchange);
  }
  void wait(double until) override {
    waited_ += std::max(0.0, until - now_);
    now_ = std::max(now_, until);
  }
  double now() const override { return now_; }
  double waited() const { return waited_; }  // seconds in which the compute stream had nothing but messages

 private:
  const Cost& cost_;
  double now_ = 0, waited_ = 0;
  std::map<const void*, double> lanes_;
};

}  // namespace trireme
