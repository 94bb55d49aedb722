#include "trireme/train/timeline.h"

#include <algorithm>
#include <limits>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// The backend keeps the times of k_kept_marks marks, those of others included.
constexpr std::size_t k_marks_to_resolve = Backend::k_kept_marks / 4;
constexpr int k_clock_rounds = 8;

}  // namespace

void Timeline::start() {
  spans_.clear(), open_.clear(), started_.clear(), marks_.clear(), known_.clear();
  running_ = true;
  recorder_.watch(this);
}

void Timeline::stop() {
  require(open_.empty(), "a trace ends between spans");
  recorder_.watch(nullptr);
  running_ = false;
  if (backend_.host_memory()) return;
  resolve();
  compare_clocks();
  for (const auto& [mark, seconds] : known_) {
    Times& times = spans_[mark.span].device;
    (mark.begins ? times.begin : times.end) = static_cast<std::int64_t>(1e9 * (seconds + host_minus_device_));
  }
}

// A mark that is waited for at once passed between two looks at the host's clock; the closest looks count.
void Timeline::compare_clocks() {
  backend_.synchronize();
  double closest = std::numeric_limits<double>::max();
  for (int round = 0; round < k_clock_rounds; ++round) {
    const std::int64_t before = monotonic_ns(), mark = backend_.mark();
    backend_.wait(mark);
    const std::int64_t after = monotonic_ns();
    const double apart = 1e-9 * static_cast<double>(after - before);
    if (apart >= closest) continue;
    closest = apart;
    host_minus_device_ = 1e-9 * static_cast<double>(before) + apart / 2 - backend_.time_of(mark);
  }
}

void Timeline::resolve() {
  if (marks_.empty()) return;
  backend_.wait(marks_.back().mark);
  for (const Mark& mark : marks_) known_.emplace_back(mark, backend_.time_of(mark.mark));
  marks_.clear();
}

Timeline::Span& Timeline::push(const std::string& name, const char* category, Kind kind) {
  spans_.push_back({name, category, kind, {}, {}, {}});
  begin(spans_.size() - 1);
  return spans_.back();
}

void Timeline::begin(std::size_t span) {
  if (!backend_.host_memory()) marks_.push_back({span, true, backend_.mark()});
  spans_[span].host.begin = monotonic_ns();
}

void Timeline::end(std::size_t span) {
  spans_[span].host.end = monotonic_ns();
  if (!backend_.host_memory()) marks_.push_back({span, false, backend_.mark()});
}

void Timeline::enter(const std::string& name, const char* category) {
  push(name, category, Kind::nested);
  open(spans_.size() - 1);
}

void Timeline::leave() {
  require(!open_.empty(), "a span ends that never began");
  const Open last = open_.back();
  open_.pop_back();
  end(last.span);
  // Background work that this one waited for.
  std::erase_if(started_, [&](const std::pair<int, std::size_t>& work) {
    const std::int64_t number = spans_[work.second].operated.number;
    if (work.first != last.communicator || number < last.first || number > last.last) return false;
    spans_[work.second].host.end = spans_[last.span].host.end;
    if (!backend_.host_memory()) marks_.push_back({work.second, false, marks_.back().mark});
    return true;
  });
  if (marks_.size() > k_marks_to_resolve) resolve();
}

void Timeline::add(const std::string& name, const char* category, const Times& times) {
  if (running_) spans_.push_back({name, category, Kind::background, times, {}, {}});
}

Timeline::Operated Timeline::operated(const What& what) const {
  Operated operated{what.operation, "", 0, 1, what.number, what.bytes};
  if (what.communicator < 0) return operated;
  const Board::Communicator& on = recorder_.board().communicators[static_cast<std::size_t>(what.communicator)];
  operated.on = on.name.data();
  operated.id = static_cast<std::uint64_t>(on.id.load());
  operated.size = on.size;
  return operated;
}

void Timeline::entered(const What& what) {
  push(name_of(what.operation), "communication", Kind::nested).operated = operated(what);
  open(spans_.size() - 1);
}

void Timeline::begun(const What& what) {
  push(name_of(what.operation), "background", Kind::background).operated = operated(what);
  started_.emplace_back(what.communicator, spans_.size() - 1);
}

void Timeline::awaits(int communicator, std::int64_t first, std::int64_t last) {
  push("wait", "communication", Kind::nested).operated = operated({communicator, Operation::none, last, 0});
  open_.push_back({spans_.size() - 1, communicator, first, last});
}

}  // namespace trireme
