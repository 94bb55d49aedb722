#include "trireme/train/event_file.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "catch.h"

using namespace trireme;

namespace {

std::string file_with(std::int64_t first_step) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme_events_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  EventFile(folder.string(), first_step).write(7, {{"train/loss", 2.5}, {"train/lr", 1e-3}});
  std::ostringstream text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  }
  std::filesystem::remove_all(folder);
  return text.str();
}

template <class T>
T at(const std::string& bytes, std::size_t position) {
  T value;
  std::memcpy(&value, bytes.data() + position, sizeof(T));
  return value;
}

}  // namespace

TEST_CASE("event file: the checksum is Castagnoli's (RFC 3720, B.4)") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(crc32c("123456789") == 0xE3069283U);
}

TEST_CASE("event file: every record has its length and both checksums, and the file ends with one") {
  for (const std::int64_t first_step : {1, 5}) {
    const std::string bytes = file_with(first_step);
    std::size_t position = 0;
    int records = 0;
    while (position + 16 <= bytes.size()) {
      const auto length = at<std::uint64_t>(bytes, position);
      const auto unmasked = [](std::uint32_t stored) {
        const std::uint32_t x = stored - 0xA282EAD8U;
        return (x >> 17) | (x << 15);
      };
      REQUIRE(unmasked(at<std::uint32_t>(bytes, position + 8)) == crc32c(bytes.substr(position, 8)));
      REQUIRE(unmasked(at<std::uint32_t>(bytes, position + 12 + length)) ==
              crc32c(bytes.substr(position + 12, length)));
      position += 16 + length;
      ++records;
    }
    CHECK(position == bytes.size());
    CHECK(records == (first_step == 1 ? 2 : 3));
    CHECK(bytes.find("train/loss") != std::string::npos);
  }
}
