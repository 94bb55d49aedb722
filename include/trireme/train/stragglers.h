#pragma once
// How long each rank computes in a step before it waits for others, compared over all ranks; names a rank that is the
// slowest again and again. On CPUs: a GPU computes while its host waits.

#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"

namespace trireme {

struct BusyTimes {
  double min = 0, median = 0, max = 0;  // seconds per step
  int slowest = 0;
};
BusyTimes busy_times(std::vector<double> seconds_by_rank);

// Which rank was clearly the slowest in most of the last comparisons.
class Suspicion {
 public:
  std::optional<int> judge(const BusyTimes& times);  // a rank is named once, and again only after others were

 private:
  std::vector<int> last_;  // slowest ranks; -1: none stood out
  int named_ = -1;
};

class Stragglers {
 public:
  Stragglers(Communicator& control, const std::string& host);  // collective
  void add(double busy_seconds);                               // of a step of this rank
  BusyTimes compare();                                         // collective; mean busy times since the last call
  std::optional<std::string> suspect(const BusyTimes& times);  // rank, host and how slow

 private:
  Communicator& control_;
  std::vector<std::string> hosts_;
  Suspicion suspicion_;
  double sum_ = 0;
  int n_ = 0;
};

}  // namespace trireme
