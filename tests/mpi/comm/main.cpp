// Catch on every rank of one MPI job: rank 0 reports, the others speak only when something fails there. The first
// failure on any rank ends the job, because the ranks would talk past each other after it.

#define CATCH_CONFIG_RUNNER
#include <iostream>
#include <sstream>

#include "catch.h"
#include "job.h"
#include "trireme/base/check.h"

namespace {

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
  trireme::test::Job job;
  running = &job;
  const int failures = run_tests(argc, argv, job.session.rank());
  if (failures != 0) job.session.abort(1, "a test failed");
  return 0;
}
