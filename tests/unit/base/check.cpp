#include "trireme/base/check.h"

#include <string>

#include "catch.h"
#include "trireme/base/log.h"

using namespace trireme;

TEST_CASE("a failed requirement says what and where") {
  std::string text;

  try {
    require(false, "two is three");
  } catch (const std::logic_error& error) {
    text = error.what();
  }

  CHECK(text.find("two is three") != std::string::npos);
  CHECK(text.find("base/check.cpp") != std::string::npos);
}

TEST_CASE("exact division refuses a remainder") {
  CHECK(div_exact(12, 4) == 3);
  CHECK_THROWS_AS(div_exact(13, 4), std::logic_error);
  CHECK_THROWS_AS(div_exact(13, 0), std::logic_error);
}

TEST_CASE("division and rounding up") {
  CHECK(div_up(0, 8) == 0);
  CHECK(div_up(9, 8) == 2);
  CHECK(round_up(9, 8) == 16);
  CHECK(round_up(16, 8) == 16);
}

TEST_CASE("an error carries its exit code") {
  try {
    throw Error(Exit::data, "no such file");
  } catch (const Error& error) {
    CHECK(error.code == Exit::data);
    CHECK(std::string(error.what()) == "no such file");
  }
}

TEST_CASE("formatted text is as long as it needs to be") {
  CHECK(format("%d of %s", 3, "four") == "3 of four");
  CHECK(format("%s", std::string(5000, 'x').c_str()).size() == 5000);
}
