#include "trireme/train/background.h"

#include <chrono>

#include "catch.h"

using namespace trireme;

TEST_CASE("work in the background is done when it says so, and its error is told once") {
  Background background;
  CHECK(background.done());
  CHECK_FALSE(background.join());
  std::atomic<bool> go = false;
  int result = 0;

  background.start([&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    result = 7;
  });
  CHECK_FALSE(background.done());
  CHECK_THROWS_AS(background.start([] {}), std::logic_error);
  go = true;
  CHECK_FALSE(background.join());
  CHECK(background.done());
  CHECK(result == 7);

  background.start([] { throw Error(Exit::data, "the disk is full"); });
  const std::optional<Error> error = background.join();
  REQUIRE(error);
  CHECK(error->code == Exit::data);
  CHECK(std::string(error->what()) == "the disk is full");
  CHECK_FALSE(background.join());
}
