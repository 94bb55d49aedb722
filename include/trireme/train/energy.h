#pragma once
// The energy of a run's training steps over all ranks' GPUs: saves and validations are left out. It reads a meter; what
// the numbers are compared with is decided by who asks.

#include <memory>
#include <optional>
#include <string>

#include "trireme/comm/communicator.h"
#include "trireme/comm/mpi.h"
#include "trireme/device/energy.h"

namespace trireme {

class Energy {
 public:
  // mine: of this rank's GPU; null on ranks without, and on all but one of those that share a GPU. Collective.
  Energy(const MpiSession& session, Communicator& control, std::unique_ptr<EnergyMeter> mine);

  bool measured() const { return measured_; }  // by some rank; the same on all
  void pause();                                // what follows is no training
  void resume();
  // Joules of training on all ranks since the last take() (NaN when a meter could not be read). Collective.
  double take();

 private:
  Communicator& control_;
  std::unique_ptr<EnergyMeter> meter_;
  bool measured_;
  double last_ = 0, sum_ = 0;
};

// The meter of this rank for Energy; null, with a line for the log, where there is none. Collective.
std::unique_ptr<EnergyMeter> meter_of_rank(const MpiSession& session, const std::string& gpu_id, std::string* why_not);

}  // namespace trireme
