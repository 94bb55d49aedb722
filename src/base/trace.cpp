#include "trireme/base/trace.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "trireme/base/check.h"

namespace trireme {

const char* name_of(Operation operation) {
  constexpr std::array names{"nothing",
                             "all_reduce",
                             "all_gather",
                             "reduce_scatter",
                             "broadcast",
                             "shift",
                             "send",
                             "recv",
                             "barrier",
                             "agreement",
                             "background work",
                             "wait for the device",
                             "collective work on files"};
  const auto i = static_cast<std::size_t>(operation);
  return i < names.size() ? names[i] : "?";
}

std::int64_t monotonic_ns() {
  using std::chrono::steady_clock;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

namespace {

template <std::size_t N>
void write(std::array<char, N>& to, const std::string& text) {
  std::snprintf(to.data(), N, "%s", text.c_str());
}

}  // namespace

Recorder::Recorder(Board& board, int rank, const std::string& host, const std::string& device) : board_(board) {
  write(board.host, host);
  write(board.device, device);
  board.rank = rank;
  board.changed_ns = monotonic_ns();
  alive();
  board.pid.store(getpid(), std::memory_order_release);
}

int Recorder::add(std::uint64_t id, const std::string& name, int size) {
  if (!mine()) return -1;
  const std::int64_t index = board_.n_communicators;
  if (index >= static_cast<std::int64_t>(Board::k_communicators)) return -1;
  Board::Communicator& communicator = board_.communicators[static_cast<std::size_t>(index)];
  write(communicator.name, name);
  communicator.size = size;
  communicator.id = static_cast<std::int64_t>(id);
  board_.n_communicators.store(index + 1, std::memory_order_release);
  return static_cast<int>(index);
}

void Recorder::name_device(const std::string& device) {
  write(board_.device, device);
}

void Recorder::rename(int communicator, const std::string& name) {
  if (communicator >= 0) write(board_.communicators[static_cast<std::size_t>(communicator)].name, name);
}

// The writer is alone: plain loads and stores of the atomics are enough, the last one publishes.
void Recorder::record(int communicator, Operation operation, std::int64_t number, std::int64_t bytes) {
  const std::int64_t r = board_.n_records.load(std::memory_order_relaxed);
  Board::Record& record = board_.records[static_cast<std::size_t>(r) % Board::k_kept];
  constexpr auto relaxed = std::memory_order_relaxed;
  record.communicator.store(communicator, relaxed);
  record.operation.store(static_cast<std::int64_t>(operation), relaxed);
  record.number.store(number, relaxed);
  record.bytes.store(bytes, relaxed);
  record.begin_ns.store(monotonic_ns(), relaxed);
  record.end_ns.store(0, relaxed);
  board_.n_records.store(r + 1, std::memory_order_release);
}

// The time in an operation counts as waiting once, for the outermost.
void Recorder::wait_in_last() {
  require(depth_ < outer_.size(), "operations are nested too deeply");
  const std::int64_t last = board_.n_records.load(std::memory_order_relaxed);
  outer_[depth_++] = last;
  if (depth_ == 1) entered_ns_ = monotonic_ns();
  board_.changed_ns.store(monotonic_ns(), std::memory_order_relaxed);
  board_.waiting.store(last, std::memory_order_release);
}

void Recorder::enter(int communicator, Operation operation, std::int64_t bytes) {
  if (!mine()) return;
  std::int64_t number = 0;
  if (communicator >= 0) {
    auto& count = board_.communicators[static_cast<std::size_t>(communicator)].n_main;
    number = count.load(std::memory_order_relaxed) + 1;
    count.store(number, std::memory_order_relaxed);
  }
  record(communicator, operation, number, bytes);
  wait_in_last();
  if (watcher_ != nullptr) watcher_->entered({communicator, operation, number, bytes});
}

std::int64_t Recorder::begin(int communicator, Operation operation, std::int64_t bytes) {
  if (!mine()) return 0;
  std::int64_t number = 0;
  if (communicator >= 0) {
    auto& count = board_.communicators[static_cast<std::size_t>(communicator)].n_lane;
    number = count.load(std::memory_order_relaxed) + 1;
    count.store(number, std::memory_order_relaxed);
  }
  record(communicator, operation, number, bytes);
  if (watcher_ != nullptr) watcher_->begun({communicator, operation, number, bytes});
  return number;
}

// Numbers of the background lane are told apart by their sign.
void Recorder::enter_started(int communicator, std::int64_t first, std::int64_t last) {
  if (!mine()) return;
  record(communicator, Operation::background, -last, 0);
  wait_in_last();
  if (watcher_ != nullptr) watcher_->awaits(communicator, first, last);
}

void Recorder::leave() {
  if (!mine()) return;
  require(depth_ > 0, "an operation ends that never began");
  if (watcher_ != nullptr) watcher_->left();
  const std::int64_t now = monotonic_ns(), left = outer_[--depth_] - 1;
  // A long time ago the ring may have come round: then the record is another's.
  if (left + static_cast<std::int64_t>(Board::k_kept) > board_.n_records.load(std::memory_order_relaxed)) {
    board_.records[static_cast<std::size_t>(left) % Board::k_kept].end_ns.store(now, std::memory_order_relaxed);
  }
  if (depth_ == 0) board_.waited_ns.store(board_.waited_ns.load(std::memory_order_relaxed) + now - entered_ns_);
  board_.changed_ns.store(now, std::memory_order_relaxed);
  board_.waiting.store(depth_ > 0 ? outer_[depth_ - 1] : 0, std::memory_order_release);
}

}  // namespace trireme
