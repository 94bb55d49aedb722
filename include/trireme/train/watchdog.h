#pragma once
// The thread that ends a job which hangs: it looks at the boards of this node's ranks, tells rank 0 about other nodes',
// and after run.hang_minutes without progress one rank reports and aborts. It never touches the training itself.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "trireme/base/trace.h"
#include "trireme/comm/mpi.h"
#include "trireme/comm/out_of_band.h"

namespace trireme {

class Watchdog {
 public:
  // Collective. minutes = 0: records, but watches nothing. report_file: where the report goes beside stderr.
  Watchdog(const MpiSession& session, double minutes, std::string report_file);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  Recorder& recorder() { return *recorder_; }
  std::string board_device() const { return recorder_->board().device.data(); }  // of this rank, for reports
  int files() const { return files_; }  // what collective work on files is recorded as

 private:
  void run();
  void look();
  bool speaks() const;
  void end_job(const std::string& report) const;

  const MpiSession& session_;
  double patience_;
  std::string report_file_;
  std::unique_ptr<NodeMemory> memory_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<OutOfBand> wires_;
  int files_ = -1;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme
