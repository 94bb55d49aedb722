#include "catch.h"
#include "trireme/base/check.h"
#include "trireme/comm/nccl.h"
#include "trireme/device/backend.h"

using namespace trireme;

TEST_CASE("a build without NCCL says so and what to do") {
  const auto backend = make_cpu_backend(1);

  try {
    make_nccl_communicator(make_self_communicator(*backend), *backend);
    FAIL("a communicator was made");
  } catch (const Error& error) {
    CHECK(error.code == Exit::usage);
    CHECK(std::string(error.what()).find("device.comm = \"mpi\"") != std::string::npos);
  }
}
