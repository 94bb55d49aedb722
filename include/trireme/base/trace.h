#pragma once
// The flight recorder: every operation that a rank does together with others, numbered per communicator, on a board
// that other processes of the node can read while this one is stuck. It records; who reads the boards decides what they
// mean.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace trireme {

enum class Operation : std::uint8_t {
  none,
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  shift,
  send,
  recv,
  barrier,
  agreement,   // of MpiSession
  background,  // several operations started at once
  device,      // the host waits for its GPU
  files        // collective work on files
};
const char* name_of(Operation operation);

std::int64_t monotonic_ns();  // one clock for all processes of a node

// Zeroed memory is a valid empty board. One process writes, others read at any time: every number is atomic, and texts
// are written before the number that announces them.
struct Board {
  static constexpr std::size_t k_communicators = 64, k_kept = 256;
  using Number = std::atomic<std::int64_t>;

  struct Communicator {
    Number id, size, n_main, n_lane;  // operations begun so far, on the main line and in the background
    std::array<char, 32> name;
  };
  struct Record {
    Number communicator, operation, number, bytes, begin_ns, end_ns;  // end 0: not yet
  };
  Number rank, pid, life_ns, step, n_communicators, n_records;
  Number reported;    // on the board of the first rank of a node: one of them has reported a hang
  Number waiting;     // record of the operation that the rank is in, plus one; 0: it computes
  Number changed_ns;  // when `waiting` changed
  Number waited_ns;   // in all operations that ended
  std::array<char, 64> host, device;
  std::array<Communicator, k_communicators> communicators;
  std::array<Record, k_kept> records;  // a ring: record r is at r % k_kept
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// Told at once of everything that a recorder records, by the thread that records.
class Watcher {
 public:
  struct What {
    int communicator;  // index on the board; -1: none
    Operation operation;
    std::int64_t number, bytes;
  };
  virtual ~Watcher() = default;
  virtual void entered(const What& what) = 0;  // the rank waits in it until left()
  virtual void left() = 0;                     // what was entered last
  virtual void begun(const What& what) = 0;    // in the background
  // The rank waits for what was begun as first ... last until left(): then all of it has ended.
  virtual void awaits(int communicator, std::int64_t first, std::int64_t last) = 0;
};

// Writes the board of this rank. Belongs to the thread that made it: what others call is not recorded, but alive().
class Recorder {
 public:
  Recorder(Board& board, int rank, const std::string& host, const std::string& device);

  int add(std::uint64_t id, const std::string& name, int size);  // index; -1 when the board is full
  void rename(int communicator, const std::string& name);
  void name_device(const std::string& device);  // for reports

  // enter ... leave: the rank waits in between; may be nested. begin: started in the background, returns its number for
  // enter_started, which waits for several.
  void enter(int communicator, Operation operation, std::int64_t bytes);
  std::int64_t begin(int communicator, Operation operation, std::int64_t bytes);
  void enter_started(int communicator, std::int64_t first, std::int64_t last);
  void leave();
  void watch(Watcher* watcher) { watcher_ = watcher; }  // outside of all operations; null: nobody

  void set_step(std::int64_t step) { board_.step.store(step, std::memory_order_relaxed); }
  void alive() { board_.life_ns.store(monotonic_ns(), std::memory_order_relaxed); }  // any thread
  double waited_seconds() const { return 1e-9 * static_cast<double>(board_.waited_ns.load()); }
  Board& board() { return board_; }

 private:
  void record(int communicator, Operation operation, std::int64_t number, std::int64_t bytes);

  void wait_in_last();
  bool mine() const { return std::this_thread::get_id() == owner_; }

  Board& board_;
  std::thread::id owner_ = std::this_thread::get_id();
  std::array<std::int64_t, 8> outer_{};  // records that the rank is in, from the outside in
  std::size_t depth_ = 0;
  std::int64_t entered_ns_ = 0;  // the outermost
  Watcher* watcher_ = nullptr;
};

// enter() now, leave() at the end of the block.
class Waiting {
 public:
  Waiting(Recorder* recorder, int communicator, Operation operation, std::int64_t bytes) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->enter(communicator, operation, bytes);
  }
  ~Waiting() {
    if (recorder_ != nullptr) recorder_->leave();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Recorder* recorder_;
};

}  // namespace trireme
