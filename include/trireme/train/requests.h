#pragma once
// What asks a run to save, to stop or to trace a few steps: its deadline, signals on any rank, files that a colleague
// puts into the run folder. All ranks learn of a request after the same step. It saves and stops nothing itself.

#include <cstdint>
#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/deck/deck.h"
#include "trireme/train/deadline.h"

namespace trireme {

enum class Wish : std::uint8_t { none, profile, save, stop };  // of two at once the later one counts

struct Request {
  Wish wish = Wish::none;
  std::string why;  // for the log
};

class Requests {
 public:
  // start: wall_seconds() of the start of the program. state_bytes: what a checkpoint will hold.
  Requests(const Deck& deck, const MpiSession& session, double start, double state_bytes);

  void step_took(double seconds) { deadline_.step_took(seconds); }
  void save_took(double seconds) { deadline_.save_took(seconds); }
  Request next();  // collective, once after each step; takes the files of what it returns away
  std::string describe() const { return deadline_.describe(); }

 private:
  int mine();
  bool file_asks(const char* name) const;

  const Deck& deck_;
  const MpiSession& session_;
  Deadline deadline_;
  double last_look_ = 0;
};

}  // namespace trireme
