// The one test main: Catch2 v2 (Debian 12) needs it defined, v3 as well when linked without its own.
#define CATCH_CONFIG_RUNNER
#include "catch.h"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
