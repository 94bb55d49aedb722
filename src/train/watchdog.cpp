#include "trireme/train/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>

#include "trireme/base/check.h"
#include "trireme/train/hang.h"

namespace trireme {

namespace {

constexpr unsigned k_seconds_to_abort = 15;
constexpr std::uint64_t k_files = 2;  // id on the boards; 1 is the session

const Board& board_of(const NodeMemory& memory, int local_rank) {
  return *reinterpret_cast<const Board*>(memory.of(local_rank));
}

}  // namespace

Watchdog::Watchdog(const MpiSession& session, double minutes, std::string report_file)
    : session_(session), patience_(60 * minutes), report_file_(std::move(report_file)) {
  memory_ = session.share_with_node(sizeof(Board));
  auto* board = reinterpret_cast<Board*>(memory_->of(session.local_rank()));
  recorder_ = std::make_unique<Recorder>(*board, session.rank(), session.host(), "");
  session.record_with(recorder_.get());
  files_ = recorder_->add(k_files, "files of the run", session.size());
  const bool leads = session.local_rank() == 0;
  if (patience_ > 0 && session.size() > 1) {
    wires_ = std::make_unique<OutOfBand>(session, leads ? OutOfBand::Part::sends : OutOfBand::Part::none);
    thread_ = std::thread([this] { run(); });
  }
}

Watchdog::~Watchdog() {
  session_.record_with(nullptr);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

// Signals are for the main thread.
void Watchdog::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const std::chrono::duration<double> interval(std::clamp(patience_ / 20, 0.05, 5.0));
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval, [this] { return ends_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

// Rank 0; on its node the next one that moves, when rank 0 does not.
bool Watchdog::speaks() const {
  if (board_of(*memory_, 0).rank != 0) return false;
  for (int i = 0; i < session_.local_rank(); ++i) {
    if (sight_of(board_of(*memory_, i)).silent <= patience_) return false;
  }
  return true;
}

void Watchdog::look() {
  recorder_->alive();
  std::vector<RankSight> sights;
  const bool leads = session_.local_rank() == 0, decides = speaks();
  if (!leads && !decides) return;
  for (int i = 0; i < session_.local_size(); ++i) {
    if (board_of(*memory_, i).pid != 0) sights.push_back(sight_of(board_of(*memory_, i)));
  }
  if (!decides) {
    wires_->post(pack(sights));
    // Rank 0 would have said something by now: it or its node is gone.
    if (wires_->silence() <= 2 * patience_) return;
    end_job("rank 0 has not answered for " + std::to_string(static_cast<int>(2 * patience_)) + " s\n" +
            hang_report(sights, patience_).value_or(""));
  }
  for (const OutOfBand::Message& message : wires_->latest()) {
    for (RankSight& s : unpack_sights(message.text)) {
      s.silent += message.age;
      s.since += message.age;
      sights.push_back(s);
    }
  }
  std::sort(sights.begin(), sights.end(), [](const RankSight& a, const RankSight& b) { return a.rank < b.rank; });
  const std::optional<std::string> report = hang_report(sights, patience_);
  if (report) end_job(*report);
}

// The main thread may hold any lock of the MPI library: a process that cannot abort dies of the alarm.
void Watchdog::end_job(const std::string& report) const {
  auto& first = *reinterpret_cast<Board*>(memory_->of(0));
  if (first.reported.exchange(1) != 0) return;  // a rank that was stopped wakes up to be killed
  std::ofstream(report_file_) << report << '\n';
  std::signal(SIGALRM, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  alarm(k_seconds_to_abort);
  session_.abort_now(static_cast<int>(Exit::rank), report);
}

}  // namespace trireme
