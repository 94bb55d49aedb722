#pragma once
// When a step's numbers are trouble: not finite, or far above those of the last good steps. It decides from numbers
// that all ranks share, so all decide alike; what follows is the trainer's business.

#include <string>
#include <vector>

namespace trireme {

class SpikeDetector {
 public:
  // sigma = 0: only what is not finite. The last `window` good steps are remembered; fewer than half of it judge
  // nothing.
  SpikeDetector(double sigma, std::size_t window) : sigma_(sigma), window_(window) {}

  // Empty: a good step. Else why it is none.
  std::string judge(double loss, double grad_norm) const;
  void accept(double loss, double grad_norm);

  struct State {  // for the checkpoint; oldest first
    std::vector<double> losses, norms;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  double sigma_;
  std::size_t window_;
  State state_;
};

}  // namespace trireme
