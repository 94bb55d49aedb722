// Files that are damaged, cut short or no checkpoints, and saves that fail.

#include <sys/resource.h>

#include <csignal>

#include "../../../src/io/h5.h"
#include "alone.h"
#include "catch.h"

// HDF5 does not free everything when it meets damaged metadata; only read by builds with a leak checker.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libhdf5";
}

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

TEST_CASE("one changed byte of an array is found and the array is named") {
  Alone alone;
  std::vector<float> a(1000, 1.0F), b(1000);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i) + 0.25F;
  const std::string path = alone.folder / "a.h5";
  const std::vector<Stored> arrays{whole("/a", DType::f32, {1000}, DType::f32, a.data()),
                                   whole("/b", DType::f32, {10, 100}, DType::f32, b.data())};
  alone.save(path, arrays);
  std::string bytes = read_file(path);
  const std::size_t place = bytes.find(std::string(reinterpret_cast<const char*>(b.data()), 4000));
  REQUIRE(place != std::string::npos);

  bytes[place + 1234] ^= 1;
  write_file(path, bytes);

  CHECK_THAT(error_of([&] { alone.load(path, arrays); }),
             Contains("3: ") && Contains("is damaged") && Contains("/b has the checksum") && !Contains("/a has"));
}

TEST_CASE("two elements that change places are found") {
  Alone alone;
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::string path = alone.folder / "a.h5";
  const std::vector<Stored> arrays{whole("/a", DType::f32, {64}, DType::f32, values.data())};
  alone.save(path, arrays);
  std::string bytes = read_file(path);
  const std::size_t place = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), 256));
  REQUIRE(place != std::string::npos);

  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(place),
                   bytes.begin() + static_cast<std::ptrdiff_t>(place) + 4,
                   bytes.begin() + static_cast<std::ptrdiff_t>(place) + 40);
  write_file(path, bytes);

  CHECK_THAT(error_of([&] { alone.load(path, arrays); }), Contains("is damaged"));
}

TEST_CASE("a file that is cut short anywhere is refused") {
  Alone alone;
  const std::string path = alone.saved_zoo("a.h5"), bytes = read_file(path);
  std::vector<std::size_t> lengths{0, 1, 7, 8, 9, 40, 100, 1000, bytes.size() - 1};
  for (std::size_t i = 1; i < 20; ++i) lengths.push_back(bytes.size() * i / 20);

  for (const std::size_t length : lengths) {
    write_file(path, bytes.substr(0, length));
    INFO("cut to " << length << " of " << bytes.size());
    CHECK_THAT(error_of([&] { read_attributes(path); }), Contains("3: ") && Contains("a.h5"));
  }
}

TEST_CASE("damaged metadata never crashes a reader") {
  Alone alone;
  const std::string path = alone.saved_zoo("a.h5"), bytes = read_file(path);
  HeldArrays arrays = zoo(1, 0, 1);

  for (std::uint64_t i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    const std::size_t reach = i % 3 == 0 ? bytes.size() : 4096;
    damaged[random_word({3, 0, 0}, 2 * i) % reach] ^= static_cast<char>(1 + random_word({3, 0, 0}, 2 * i + 1) % 255);
    write_file(path, damaged);
    error_of([&] { list_arrays(path); });
    error_of([&] { alone.load(path, arrays.stored()); });
  }
  SUCCEED("no crash");
}

TEST_CASE("what is no checkpoint is refused with what it is") {
  Alone alone;
  const auto made = [&](const char* name, const char* filetype, std::int64_t version, std::int64_t complete) {
    H5File file = H5File::create(alone.folder / name, 1);
    file.set_text("filetype", filetype);
    file.set_number("version", version);
    file.set_number("complete", complete);
    file.close();
    return alone.folder / name;
  };

  CHECK_THAT(error_of([&] { read_attributes(alone.folder / "none.h5"); }),
             Contains("3: ") && Contains("none.h5: does not exist"));
  CHECK_THAT(error_of([&] { read_attributes(alone.folder.path()); }), Contains("is a folder"));
  CHECK_THAT(error_of([&] { read_attributes(write_file(alone.folder / "text.h5", "hello, world")); }),
             Contains("is not an HDF5 file (12 B)"));
  CHECK_THAT(error_of([&] { read_attributes(made("other.h5", "something else", 1, 1)); }),
             Contains("no Trireme checkpoint") && Contains("something else"));
  CHECK_THAT(error_of([&] { read_attributes(made("new.h5", "trireme checkpoint", 99, 1)); }),
             Contains("version 99") && Contains("newer program"));
  CHECK_THAT(error_of([&] { read_attributes(made("torn.h5", "trireme checkpoint", 1, 0)); }),
             Contains("is incomplete"));
  CHECK(error_of([&] { read_attributes(made("good.h5", "trireme checkpoint", 1, 1)); }) == "no error");
}

TEST_CASE("a save that fails leaves the earlier file and nothing else") {
  Alone alone;
  const std::string path = alone.saved_zoo("a.h5"), bytes = read_file(path);
  std::vector<float> data(1 << 20);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};

  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error =
      error_of([&] { alone.save(path, {whole("/a", DType::f32, {1 << 20}, DType::f32, data.data())}); });
  setrlimit(RLIMIT_FSIZE, &before);

  CHECK_THAT(error, Contains("3: ") && Contains("a.h5.part"));
  CHECK(read_file(path) == bytes);
  CHECK_FALSE(std::filesystem::exists(path + ".part"));
  CHECK(error_of([&] { alone.save(path, {whole("/a", DType::f32, {1 << 20}, DType::f32, data.data())}); }) ==
        "no error");
}

TEST_CASE("a folder that is not there is named") {
  Alone alone;

  CHECK_THAT(error_of([&] { alone.save(alone.folder / "no/a.h5", {}); }),
             Contains("3: ") && Contains("no/a.h5.part") && Contains("run.output"));
}
