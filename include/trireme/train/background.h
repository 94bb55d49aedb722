#pragma once
// One piece of work on a thread of its own, and what became of it. It knows nothing of checkpoints; it is not a pool.

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "trireme/base/check.h"

namespace trireme {

class Background {
 public:
  Background() = default;
  ~Background();  // waits
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start(std::function<void()> work);  // nothing may be running
  bool done() const { return done_; }
  // Waits. What the work has thrown; its own type is lost but for the exit code.
  std::optional<Error> join();

 private:
  std::thread thread_;
  std::atomic<bool> done_ = true;
  std::optional<Error> error_;
};

}  // namespace trireme
