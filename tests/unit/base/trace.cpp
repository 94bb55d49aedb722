#include "trireme/base/trace.h"

#include <memory>

#include "catch.h"

using namespace trireme;

TEST_CASE("trace: operations are numbered per communicator, the background apart from the main line") {
  const auto board = std::make_unique<Board>();
  Recorder recorder(*board, 3, "node", "GPU 1");
  const int a = recorder.add(10, "tp", 2), b = recorder.add(11, "dp", 4);

  recorder.enter(a, Operation::all_reduce, 8), recorder.leave();
  recorder.enter(b, Operation::barrier, 0), recorder.leave();
  const std::int64_t started = recorder.begin(a, Operation::send, 64);
  recorder.enter(a, Operation::all_gather, 16);

  CHECK(started == 1);
  CHECK(board->communicators[0].n_main == 2);
  CHECK(board->communicators[0].n_lane == 1);
  CHECK(board->communicators[1].n_main == 1);
  CHECK(board->waiting == 4);
  CHECK(board->records[3].bytes == 16);
  recorder.leave();
  CHECK(board->waiting == 0);
}

TEST_CASE("trace: an operation inside another one: the outer goes on, its time counts once") {
  const auto board = std::make_unique<Board>();
  Recorder recorder(*board, 0, "node", "");
  const int files = recorder.add(2, "files", 1), all = recorder.add(1, "all", 1);

  {
    const Waiting outer(&recorder, files, Operation::files, 0);
    for (int i = 0; i < 1000; ++i) const Waiting inner(&recorder, all, Operation::agreement, 0);
    CHECK(board->waiting == 1);
  }

  CHECK(board->waiting == 0);
  CHECK(recorder.waited_seconds() > 0);
  CHECK(recorder.waited_seconds() < 1);
}

TEST_CASE("trace: a full board records no more communicators and does not break") {
  const auto board = std::make_unique<Board>();
  Recorder recorder(*board, 0,
                    "a host name that is much longer than the sixty-four bytes that the board has for it, really", "");
  int last = 0;
  for (std::size_t i = 0; i < Board::k_communicators + 3; ++i) last = recorder.add(i + 5, "c", 2);

  CHECK(last == -1);
  recorder.enter(last, Operation::send, 1), recorder.leave();
  CHECK(board->waiting == 0);
}
