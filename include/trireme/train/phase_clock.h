#pragma once
// Where the time of a step goes, by marks on the compute stream: forward, backward, waiting for other ranks, optimizer.
// Waiting is what pipeline receives and the reduction of gradients leave exposed; collectives inside a layer count
// where they happen. It reads no clock of the host and stops nothing.

#include <array>
#include <cstdint>
#include <vector>

#include "trireme/device/backend.h"

namespace trireme {

enum class Phase : std::uint8_t { forward, backward, waiting, optimizer };
inline constexpr int k_n_phases = 4;
const char* name_of(Phase phase);
using PhaseSeconds = std::array<double, k_n_phases>;  // NaN: the step had more marks than the backend keeps

class PhaseClock {
 public:
  explicit PhaseClock(Backend& backend) : backend_(backend) {}
  void begin_step();
  std::int64_t step() const { return current_; }  // a number for seconds()
  void enter(Phase phase);                        // what is enqueued from here belongs to it
  void end_step();
  // Of the last step or the one before it. Waits until the device has passed its end.
  PhaseSeconds seconds(std::int64_t step) const;

 private:
  struct Entry {
    Phase phase;
    std::int64_t mark;
  };
  std::vector<Entry>& entries() { return steps_[static_cast<std::size_t>(current_ % 2)]; }

  std::array<std::vector<Entry>, 2> steps_;  // this one and the one before; the last entry only ends the one before it
  Backend& backend_;
  std::int64_t current_ = 0;
};

}  // namespace trireme
