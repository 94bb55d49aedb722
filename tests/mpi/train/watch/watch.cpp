// watch WAY RANK: a job in which one rank misbehaves after a few all_reduce calls; watch.py looks at how it ends.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "trireme/base/check.h"
#include "trireme/comm/process_grid.h"
#include "trireme/comm/traced.h"
#include "trireme/device/backend.h"
#include "trireme/train/watchdog.h"

namespace {

using namespace trireme;

constexpr double k_minutes = 1.5 / 60;

void sum(Communicator& ranks, std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n), 1.0);
  ranks.all_reduce(Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f64, {n}), Reduce::sum);
}

void misbehave(const std::string& way, ProcessGrid& grid, Recorder& recorder) {
  if (way == "absent") std::this_thread::sleep_for(std::chrono::hours(1));
  if (way == "stopped") std::raise(SIGSTOP);
  if (way == "late") std::this_thread::sleep_for(std::chrono::seconds(1));
  if (way == "barrier") grid.world().barrier();
  if (way == "files") {
    const Waiting here(&recorder, -1, Operation::device, 0);
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

void run(const std::string& way, int which) {
  const MpiSession session;
  const auto backend = make_cpu_backend(1);
  Watchdog dog(session, k_minutes, "/dev/null");
  ProcessGrid grid(make_traced_communicator(session.world(*backend, Memory::host), dog.recorder(), "world", 4),
                   {1, session.size() / 2, 1, 2});
  for (int step = 1; step <= 40; ++step) {
    dog.recorder().set_step(step);
    sum(grid.along(Axis::tp), 16);
    double news = step;
    const Tensor news_1(reinterpret_cast<std::byte*>(&news), DType::f64, {1});
    Ticket ticket = grid.replicas().background([&](Communicator& lane) { lane.broadcast(news_1, 0); });
    if (step == 30 && session.rank() == which) misbehave(way, grid, dog.recorder());
    sum(grid.along(Axis::dp), 32);
    ticket.wait();
    if (way == "late") std::this_thread::sleep_for(std::chrono::milliseconds(60));  // longer in all than the patience
  }
  session.any(false);
  if (session.rank() == 0) std::printf("done\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  run(argv[1], std::atoi(argv[2]));
  return 0;
}
