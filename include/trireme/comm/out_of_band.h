#pragma once
// Short texts from the first rank of each node to rank 0 by TCP, beside MPI: they pass when MPI is stuck. Connections
// are made at start-up to whichever address of rank 0's host answers; nothing is assumed about interfaces. Used by one
// thread.
//
// Decision: not MPI itself (a second thread in a library that hangs is no help, and MPI_THREAD_MULTIPLE is not always
// given), not files (a hanging file system is one of the things to report).

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/mpi.h"

namespace trireme {

class OutOfBand {
 public:
  enum class Part : std::uint8_t { none, sends };
  // Collective. part: whether this rank will send; rank 0 receives.
  OutOfBand(const MpiSession& session, Part part);
  ~OutOfBand();
  OutOfBand(const OutOfBand&) = delete;
  OutOfBand& operator=(const OutOfBand&) = delete;

  // The sender's side: false when the text did not leave.
  bool post(const std::string& text);
  double silence();  // seconds since rank 0 last took a text, or since the start

  // Rank 0's side: the last text of every sender, with the seconds since it came.
  struct Message {
    std::string text;
    double age = 0;
  };
  std::vector<Message> latest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
