#pragma once
// What this rank did, as spans of time with names: phases and micro-batches that the code enters, and every operation
// that the flight recorder sees. Off, it costs a branch. It keeps spans in memory; files are the business of tracing.h.
//
// A GPU runs behind its host, so that there every span has two times: the host's (when work was enqueued, or waited
// for) and the device's, by marks on the compute stream. On CPUs they are one.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/device/backend.h"

namespace trireme {

class Timeline final : public Watcher {
 public:
  struct Operated {  // of an operation with other ranks
    Operation operation = Operation::none;
    std::string on;        // communicator
    std::uint64_t id = 0;  // of the communicator, the same on all its ranks
    std::int64_t size = 0, number = 0, bytes = 0;
  };
  struct Times {
    std::int64_t begin = 0, end = 0;  // ns of monotonic_ns(); end 0: did not end
  };
  enum class Kind : std::uint8_t { nested, background };
  struct Span {
    std::string name, category;
    Kind kind = Kind::nested;
    Times host, device;  // device: both 0 on CPUs
    Operated operated;
  };

  Timeline(Backend& backend, Recorder& recorder) : backend_(backend), recorder_(recorder) {}
  void start();  // between steps
  void stop();   // waits for the device
  bool running() const { return running_; }
  const std::vector<Span>& spans() const { return spans_; }

  // enter ... leave on the thread that trains, nested like blocks.
  void enter(const std::string& name, const char* category);
  void leave();
  // What another thread did.
  void add(const std::string& name, const char* category, const Times& times);

  void entered(const What& what) override;
  void left() override { leave(); }
  void begun(const What& what) override;
  void awaits(int communicator, std::int64_t first, std::int64_t last) override;

 private:
  struct Mark {  // on the compute stream; its time is not known yet
    std::size_t span;
    bool begins;
    std::int64_t mark;
  };
  struct Open {
    std::size_t span;
    int communicator = -1;  // of background work that ends with this span
    std::int64_t first = 0, last = -1;
  };

  Span& push(const std::string& name, const char* category, Kind kind);
  void open(std::size_t span) { open_.push_back({span, -1, 0, -1}); }
  Operated operated(const What& what) const;
  void begin(std::size_t span);
  void end(std::size_t span);
  void resolve();
  void compare_clocks();

  Backend& backend_;
  Recorder& recorder_;
  bool running_ = false;
  std::vector<Span> spans_;
  std::vector<Open> open_;
  std::vector<std::pair<int, std::size_t>> started_;  // background work that nobody has waited for: communicator, span
  std::vector<Mark> marks_;
  std::vector<std::pair<Mark, double>> known_;  // marks and seconds on the device's clock
  double host_minus_device_ = 0;                // seconds
};

// A block of code as a span of the timeline (null or off: none) and as an NVTX range of the backend.
class Within {
 public:
  Within(Backend& backend, Timeline* timeline, const std::string& name, const char* category)
      : backend_(backend), timeline_(timeline != nullptr && timeline->running() ? timeline : nullptr) {
    backend_.enter_range(name.c_str());
    if (timeline_ != nullptr) timeline_->enter(name, category);
  }
  ~Within() {
    if (timeline_ != nullptr) timeline_->leave();
    backend_.leave_range();
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Backend& backend_;
  Timeline* timeline_;
};

}  // namespace trireme
