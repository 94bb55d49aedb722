// A job that ends in the way its argument names; endings.py watches what mpirun makes of it.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"
#include "trireme/device/backend.h"

namespace {

using namespace trireme;

// The others wait here for a rank that never comes.
void wait_for_all(Communicator& world) {
  world.barrier();
  std::printf("not reached\n");
}

void drop_a_ticket(Communicator& world) {
  std::int32_t in = 0, out = world.rank();
  Tensor from_left(reinterpret_cast<std::byte*>(&in), DType::i32, {1});
  Tensor to_right(reinterpret_cast<std::byte*>(&out), DType::i32, {1});
  {
    Ticket forgotten = world.background([&](Communicator& lane) { lane.shift(from_left, to_right); });
  }
  world.barrier();
}

void end(const MpiSession& session, Communicator& world, const std::string& way, int code) {
  const bool is_last = session.rank() == session.size() - 1;
  if (way == "together") session.end_together(code, "a deck error that all ranks found");
  if (way == "abort" && is_last) session.abort(code, "an error of one rank");
  if (way == "echo") session.abort(is_last ? code : static_cast<int>(Exit::rank), is_last ? "the cause" : "an echo");
  if (way == "kill" && is_last) std::raise(SIGKILL);
  if (way == "unreported" && is_last) throw Error(Exit::data, "nobody reports this");
  if (way == "dropped") return drop_a_ticket(world);
  if (way != "finish") wait_for_all(world);
}

void run(const std::string& way, int code) {
  const MpiSession session;
  const auto backend = make_cpu_backend(1);
  const auto world = session.world(*backend, Memory::host);
  std::printf("pid %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  world->barrier();
  end(session, *world, way, code);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 1;
  run(argv[1], std::atoi(argv[2]));
  return 0;
} catch (const trireme::Error&) {
  return 42;  // too late: the session has ended the job while the exception passed it
}
