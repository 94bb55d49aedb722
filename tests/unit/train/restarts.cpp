#include "trireme/train/restarts.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

struct Folder {
  std::string path =
      (std::filesystem::temp_directory_path() / ("trireme_restarts_" + std::to_string(getpid()))).string();
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("restarts: the start after the allowed ones of the same step is refused, and again") {
  const Folder folder;
  for (int i = 0; i < 3; ++i) note_start(folder.path, 40, "deck", 3);

  CHECK_THROWS_AS(note_start(folder.path, 40, "deck", 3), Error);
  CHECK_THROWS_WITH(note_start(folder.path, 40, "deck", 3), Catch::Matchers::Contains("from step 40"));
}

TEST_CASE("restarts: progress, another step, another deck and a limit of 0 start anew") {
  const Folder folder;
  const auto twice = [&] {
    note_progress(folder.path);
    note_start(folder.path, 40, "deck", 2);
    note_start(folder.path, 40, "deck", 2);
  };

  twice();
  CHECK_NOTHROW(note_start(folder.path, 41, "deck", 2));
  twice();
  CHECK_NOTHROW(note_start(folder.path, 40, "other deck", 2));
  twice();
  CHECK_NOTHROW(note_start(folder.path, 40, "deck", 0));
  twice();
}

TEST_CASE("restarts: a damaged count is no count") {
  const Folder folder;
  for (const char* text : {"", "x y z", "9999999999999999999999 40 1", "5 40"}) {
    std::ofstream(folder.path + "/starts.txt") << text;
    CHECK_NOTHROW(note_start(folder.path, 40, "deck", 2));
  }
}
