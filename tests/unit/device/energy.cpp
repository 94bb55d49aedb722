#include "trireme/device/energy.h"

#include "catch.h"

using namespace trireme;
using Catch::Matchers::Contains;

namespace {

constexpr const char* k_id = "00112233445566778899aabbccddeeff";

std::string reason(const std::string& id, const std::string& library) {
  std::string why_not;
  CHECK(open_energy_meter(id, library, &why_not) == nullptr);
  return why_not;
}

}  // namespace

TEST_CASE("energy: the counter of the GPU with this id, in joules") {
  std::string why_not;
  const auto meter = open_energy_meter(k_id, FAKE_NVML, &why_not);

  REQUIRE(meter != nullptr);
  const double first = meter->joules();
  CHECK(first > 1000);
  CHECK(meter->joules() - first == Approx(1.5));
}

TEST_CASE("energy: without library, driver, counter or GPU there is no meter, and a reason") {
  CHECK_THAT(reason(k_id, "libno-such-library.so.1"), Contains("cannot be loaded"));
  CHECK_THAT(reason(k_id, FAKE_NVML_NO_DRIVER), Contains("Driver Not Loaded"));
  CHECK_THAT(reason(k_id, FAKE_NVML_NO_COUNTER), Contains("Not Supported"));
  CHECK_THAT(reason(k_id, FAKE_NVML_OLD), Contains("too old"));
  CHECK_THAT(reason("ff112233445566778899aabbccddeeff", FAKE_NVML),
             Contains("GPU-ff112233-4455") && Contains("Not Found"));
  CHECK_THAT(reason("", FAKE_NVML), Contains("no GPU"));
}
