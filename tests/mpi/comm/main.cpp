// mpi_comm [--cuda] [CATCH OPTIONS]
// Catch on every rank of one MPI job: rank 0 reports, the others speak only when something fails there. The first
// failure on any rank ends the job, because the ranks would talk past each other after it.

#define CATCH_CONFIG_RUNNER
#include <iostream>
#include <sstream>
#include <string>

#include "catch.h"
#include "job.h"
#include "trireme/base/check.h"

namespace {

constexpr int k_skipped = 77;

trireme::test::Job* running = nullptr;

int run_tests(int argc, char** argv, int rank) {
  Catch::Session catch_session;
  const int usage = catch_session.applyCommandLine(argc, argv);
  if (usage != 0) return usage;
  catch_session.configData().abortAfter = 1;
  std::ostringstream report;
  std::streambuf* terminal = std::cout.rdbuf();
  if (rank != 0) std::cout.rdbuf(report.rdbuf());
  const int failures = catch_session.run();
  std::cout.rdbuf(terminal);
  if (failures != 0 && rank != 0) std::cout << "rank " << rank << ":\n" << report.str() << std::flush;
  return failures;
}

}  // namespace

trireme::test::Job& trireme::test::job() {
  require(running != nullptr, "a test asked for the job before it started");
  return *running;
}

int main(int argc, char** argv) {
  const bool cuda = argc > 1 && std::string(argv[1]) == "--cuda";
  if (cuda && trireme::cuda_device_count() == 0) {
    std::cout << "skipped: no GPU\n";
    return k_skipped;
  }
  if (cuda) argv[1] = argv[0];
  trireme::test::Job job(cuda ? trireme::DeviceKind::cuda : trireme::DeviceKind::cpu);
  running = &job;
  const int failures = run_tests(cuda ? argc - 1 : argc, cuda ? argv + 1 : argv, job.session.rank());
  if (failures != 0) job.session.abort(1, "a test failed");
  return 0;
}
