#include "trireme/train/timeline.h"

#include <algorithm>
#include <memory>

#include "catch.h"
#include "device/cpu/cpu_backend.h"

using namespace trireme;

namespace {

constexpr double k_off = 1000;  // seconds from the host's clock to the device's

// A device beside the host, as far as a timeline sees: another clock, and a ring of marks that forgets.
class OtherClock final : public cpu::CpuBackend {
 public:
  OtherClock() : CpuBackend(1) {}
  bool host_memory() const override { return false; }
  double time_of(std::int64_t mark) override { return CpuBackend::time_of(mark) + k_off; }
};

struct Lab {
  std::unique_ptr<Board> board = std::make_unique<Board>();
  Recorder recorder{*board, 0, "node", ""};
  int tp = recorder.add(10, "tp", 2);
};

const Timeline::Span& span_of(const Timeline& timeline, const std::string& name) {
  const auto found = std::find_if(timeline.spans().begin(), timeline.spans().end(),
                                  [&](const Timeline::Span& span) { return span.name == name; });
  REQUIRE(found != timeline.spans().end());
  return *found;
}

bool inside(const Timeline::Times& inner, const Timeline::Times& outer) {
  return inner.begin >= outer.begin && inner.end <= outer.end && inner.begin <= inner.end;
}

}  // namespace

TEST_CASE("timeline: blocks and operations are nested and know their communicator; off, nothing is kept") {
  Lab lab;
  cpu::CpuBackend backend(1);
  Timeline timeline(backend, lab.recorder);
  { const Within before(backend, &timeline, "before", "phase"); }
  timeline.start();
  {
    const Within step(backend, &timeline, "step", "phase");
    const Waiting here(&lab.recorder, lab.tp, Operation::all_reduce, 64);
  }
  timeline.stop();
  { const Waiting after(&lab.recorder, lab.tp, Operation::all_gather, 64); }

  REQUIRE(timeline.spans().size() == 2);
  const Timeline::Span& operation = span_of(timeline, "all_reduce");
  CHECK(operation.operated.on == "tp");
  CHECK(operation.operated.bytes == 64);
  CHECK(operation.operated.size == 2);
  CHECK(operation.operated.id == 10);
  CHECK(inside(operation.host, span_of(timeline, "step").host));
  CHECK(operation.device.begin == 0);
}

TEST_CASE("timeline: background work ends with the wait for it, and only that which was waited for") {
  Lab lab;
  cpu::CpuBackend backend(1);
  Timeline timeline(backend, lab.recorder);
  timeline.start();
  const std::int64_t first = lab.recorder.begin(lab.tp, Operation::send, 8);
  const std::int64_t second = lab.recorder.begin(lab.tp, Operation::recv, 8);
  lab.recorder.begin(lab.tp, Operation::broadcast, 8);
  lab.recorder.enter_started(lab.tp, first, second);
  lab.recorder.leave();
  timeline.stop();

  const Timeline::Span& wait = span_of(timeline, "wait");
  CHECK(span_of(timeline, "send").host.end == wait.host.end);
  CHECK(span_of(timeline, "recv").host.end == wait.host.end);
  CHECK(span_of(timeline, "broadcast").host.end == 0);
}

TEST_CASE("timeline: times of a device come on the host's clock, also of more spans than it keeps marks") {
  Lab lab;
  OtherClock backend;
  Timeline timeline(backend, lab.recorder);
  constexpr int k_spans = 3 * static_cast<int>(Backend::k_kept_marks);
  timeline.start();
  for (int i = 0; i < k_spans; ++i) {
    const Within outer(backend, &timeline, "outer", "phase");
    const Within inner(backend, &timeline, "inner", "phase");
  }
  timeline.stop();

  REQUIRE(timeline.spans().size() == 2 * k_spans);
  int nested = 0, close = 0;
  for (std::size_t i = 0; i < timeline.spans().size(); i += 2) {
    const Timeline::Span &outer = timeline.spans()[i], &inner = timeline.spans()[i + 1];
    nested += inside(inner.device, outer.device) ? 1 : 0;
    // Marks were taken just before or after the host looked at its clock.
    close += std::abs(inner.device.begin - inner.host.begin) < 5'000'000 ? 1 : 0;
  }
  CHECK(nested == k_spans);
  CHECK(close > k_spans * 9 / 10);
}
