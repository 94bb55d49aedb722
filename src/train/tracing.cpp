#include "trireme/train/tracing.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/comm/clock.h"
#include "trireme/train/start_up.h"

namespace trireme {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t k_warm_up_steps = 2;
enum Track : int { k_host = 0, k_device = 1 };  // "threads" of a rank; background work has tracks of its own

// The ranks of a node share one clock: the best comparison of them is everyone's.
ClockShift shift_of_node(const MpiSession& session, Communicator& control) {
  const auto memory = session.share_with_node(sizeof(ClockShift));
  auto& mine = *reinterpret_cast<ClockShift*>(memory->of(session.local_rank()));
  mine = shift_to_rank_0(control, monotonic_ns);
  session.any(false);  // all have written
  ClockShift best = mine;
  for (int i = 0; i < session.local_size(); ++i) {
    const auto& other = *reinterpret_cast<const ClockShift*>(memory->of(i));
    if (other.error_ns < best.error_ns) best = other;
  }
  session.any(false);  // all have read
  return best;
}

std::string metadata(int rank, int track, const char* what, const Json& arguments) {
  return Json{{"ph", "M"}, {"pid", rank}, {"tid", track}, {"name", what}, {"args", arguments}}.dump() + ",\n";
}

Json arguments_of(const Timeline::Operated& o) {
  if (o.on.empty()) return Json::object();
  return {{"axis", o.on},
          {"ranks", o.size},
          {"bytes", o.bytes},
          {"number", o.number},
          {"communicator", format("%016llx", static_cast<unsigned long long>(o.id))}};
}

double microseconds(std::int64_t ns) {
  return 1e-3 * static_cast<double>(ns);
}

// One span on one track; background work as a pair of events, because it overlaps what it runs beside.
struct EventWriter {
  int rank;
  std::int64_t shift, last;  // last: when the trace ended, on this rank's clock
  std::int64_t n_background;
  std::string text;

  void span(const Timeline::Span& span, const Timeline::Times& times, Track track) {
    Json event{{"ph", "X"},
               {"pid", rank},
               {"tid", static_cast<int>(track)},
               {"ts", microseconds(times.begin + shift)},
               {"name", span.operated.on.empty() ? span.name : span.name + " " + span.operated.on},
               {"cat", span.category},
               {"args", arguments_of(span.operated)}};
    const bool ended = times.end > 0;
    if (!ended) event["args"]["unfinished"] = true;
    const std::int64_t end = ended ? times.end : last;
    if (span.kind == Timeline::Kind::nested) {
      event["dur"] = microseconds(end - times.begin);
      text += event.dump() + ",\n";
      return;
    }
    event["id"] = format("%d.%lld", rank, static_cast<long long>(n_background++));
    event["args"]["clock"] = track == k_device ? "device" : "host";
    event["ph"] = "b";
    text += event.dump() + ",\n";
    event["ph"] = "e", event["ts"] = microseconds(end + shift);
    event.erase("args");
    text += event.dump() + ",\n";
  }
};

// What the host alone does has no place on the device's track.
bool on_device(const Timeline::Span& span) {
  constexpr std::array host_only{Operation::agreement, Operation::files, Operation::device, Operation::barrier};
  return span.device.begin > 0 &&
         std::find(host_only.begin(), host_only.end(), span.operated.operation) == host_only.end();
}

std::string not_written(const std::string& path) {
  return "cannot write the trace " + path + ": check the free space and permissions of the run folder";
}

}  // namespace

Tracing::Tracing(const Deck& deck, const MpiSession& session, const Job& job, Watchdog& watchdog)
    : deck_(deck), session_(session), job_(job), watchdog_(watchdog), timeline_(*job.backend, watchdog.recorder()) {}

void Tracing::plan(std::int64_t first, std::int64_t last) {
  if (deck_.log.trace) from_ = std::max(first, std::min(first + k_warm_up_steps, last - deck_.log.trace_steps + 1));
}

void Tracing::before(std::int64_t step) {
  if (from_ < 0 || step < from_ || timeline_.running()) return;
  from_ = -1;
  first_ = step;
  timeline_.start();
}

bool Tracing::ends_after(std::int64_t step) const {
  return timeline_.running() && step + 1 >= first_ + deck_.log.trace_steps;
}

std::string Tracing::finish() {
  timeline_.stop();
  const Waiting here(&watchdog_.recorder(), watchdog_.files(), Operation::files, 0);
  const std::string path = deck_.run.output + format("/trace_%08lld.json", static_cast<long long>(first_));
  write(path);
  return path;
}

std::string Tracing::rank_events(std::int64_t shift_ns, std::int64_t error_ns) const {
  const int rank = session_.rank();
  GridPoint here = job_.grid->here();
  const auto at = [&](Axis axis) { return here.at(axis); };
  std::string text = metadata(rank, k_host, "process_name",
                              {{"name", format("rank %d on %s: pp%d dp%d cp%d tp%d", rank, session_.host().c_str(),
                                               at(Axis::pp), at(Axis::dp), at(Axis::cp), at(Axis::tp))}});
  text += metadata(rank, k_host, "process_sort_index", {{"sort_index", rank}});
  const bool gpu = !job_.backend->host_memory();
  text += metadata(rank, k_host, "thread_name", {{"name", gpu ? "host: enqueues and waits" : "host"}});
  if (gpu) text += metadata(rank, k_device, "thread_name", {{"name", "device: compute stream"}});
  text += metadata(rank, k_host, "clock", {{"shift_ns", shift_ns}, {"error_ns", error_ns}});
  EventWriter writer{rank, shift_ns, monotonic_ns(), 0, ""};
  for (const Timeline::Span& span : timeline_.spans()) {
    const bool device = on_device(span);
    if (span.kind == Timeline::Kind::nested || !device) writer.span(span, span.host, k_host);
    if (device) writer.span(span, span.device, k_device);
  }
  return text + writer.text;
}

// Rank 0 holds the events of one rank at a time.
void Tracing::write(const std::string& path) const {
  Communicator& control = *job_.control;
  const ClockShift shift = shift_of_node(session_, control);
  std::string mine = rank_events(shift.shift_ns, shift.error_ns);
  std::int64_t bytes = static_cast<std::int64_t>(mine.size());
  const Tensor size(reinterpret_cast<std::byte*>(&bytes), DType::i64, {1});
  const auto text_of = [](std::string& s) {
    return Tensor(reinterpret_cast<std::byte*>(s.data()), DType::u8, {static_cast<std::int64_t>(s.size())});
  };
  std::ofstream out;
  if (session_.rank() == 0) {
    out.open(path + ".part");
    out << "{\"displayTimeUnit\":\"ms\",\"otherData\":"
        << Json{{"run", deck_.run.name}, {"first_step", first_}, {"grid", to_string(job_.grid->here())}}.dump()
        << ",\"traceEvents\":[\n";
  } else {
    control.send(size, 0);
    control.send(text_of(mine), 0);
  }
  for (int rank = 0; session_.rank() == 0 && rank < session_.size(); ++rank) {
    if (rank > 0) {
      control.recv(size, rank);
      mine.resize(static_cast<std::size_t>(bytes));
      control.recv(text_of(mine), rank);
    }
    if (rank + 1 == session_.size()) mine.resize(mine.size() - 2);  // no comma after the last
    out << mine;
  }
  on_rank_0(session_, [&] {
    out << "\n]}\n";
    out.close();
    if (!out || std::rename((path + ".part").c_str(), path.c_str()) != 0) throw Error(Exit::data, not_written(path));
  });
}

}  // namespace trireme
