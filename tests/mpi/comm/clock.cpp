#include "trireme/comm/clock.h"

#include "catch.h"
#include "job.h"
#include "trireme/base/trace.h"

using namespace trireme;
using trireme::test::job;

TEST_CASE("clocks that differ by hours come together within the stated error") {
  const auto backend = make_cpu_backend(1);
  const auto all = job().session.world(*backend, Memory::host);
  const std::int64_t off = all->rank() * std::int64_t{3'600'000'000'000} + 17;
  const auto clock = [off] { return monotonic_ns() + off; };  // the ranks of this test share monotonic_ns()

  const ClockShift found = shift_to_rank_0(*all, clock);

  const std::int64_t expected = 17 - off;
  CHECK(std::abs(found.shift_ns - (all->rank() == 0 ? 0 : expected)) <= found.error_ns);
  CHECK(found.error_ns < 1'000'000'000);
  CHECK((all->rank() == 0) == (found.error_ns == 0));
}
