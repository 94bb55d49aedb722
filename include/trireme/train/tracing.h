#pragma once
// Traces of a few steps: when to take one (log.trace, or the file `profile` in the run folder) and its file, in the
// trace event format of Chrome that Perfetto reads, all ranks on rank 0's clock. Collective.

#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/train/job.h"
#include "trireme/train/timeline.h"
#include "trireme/train/watchdog.h"

namespace trireme {

class Tracing {
 public:
  Tracing(const Deck& deck, const MpiSession& session, const Job& job, Watchdog& watchdog);

  Timeline* timeline() { return &timeline_; }
  bool running() const { return timeline_.running(); }
  // The first step of this start, and the last of the run: log.trace leaves out what is warming up when it can.
  void plan(std::int64_t first, std::int64_t last);
  void ask() { from_ = 0; }  // from the next step on
  void before(std::int64_t step);
  bool ends_after(std::int64_t step) const;  // its last step is done
  std::string finish();                      // waits for the device; the file

 private:
  void write(const std::string& path) const;
  std::string rank_events(std::int64_t shift_ns, std::int64_t error_ns) const;

  const Deck& deck_;
  const MpiSession& session_;
  const Job& job_;
  Watchdog& watchdog_;
  Timeline timeline_;
  std::int64_t from_ = -1, first_ = 0;  // the step to begin with (-1: none), and that of the trace in hand
};

}  // namespace trireme
