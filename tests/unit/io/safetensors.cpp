#include "trireme/io/safetensors.h"

#include "catch.h"
#include "files.h"
#include "trireme/base/philox.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

namespace {

std::string with_header(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + data;
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

struct Files {
  TemporaryFolder folder;
  std::string write(const std::string& bytes) const { return write_file(folder / "a.safetensors", bytes); }
  // The error of opening a file with this header.
  std::string error(const std::string& json, const std::string& data) const {
    return error_of([&] { SafetensorsFile(write(with_header(json, data))); });
  }
};

// A header of one tensor "w".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

// Opens and reads everything; errors are fine.
void read_all(const std::string& path) {
  error_of([&] {
    const SafetensorsFile file(path);
    for (const auto& [name, tensor] : file.tensors()) error_of([&] { file.values(name); });
  });
}

}  // namespace

TEST_CASE("tensors, shapes and metadata of a file") {
  const Files files;
  const auto path = files.write(with_header(R"( {"__metadata__":{"format":"pt"},
    "b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}, "a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
    "none":{"dtype":"F32","shape":[3,0],"data_offsets":[16,16]}}   )",
                                            bytes_of({1.5F, -2.0F}) + bytes_of<std::int64_t>({-7})));

  const SafetensorsFile file(path);

  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.tensors().size() == 3);
  CHECK(file.at("a").shape == std::vector<std::int64_t>{2, 1});
  CHECK(file.at("a").dtype == DType::f32);
  CHECK(file.values("a") == std::vector<double>{1.5, -2.0});
  CHECK(file.values("b") == std::vector<double>{-7});
  CHECK(file.values("none").empty());
}

TEST_CASE("every number type is read, at any alignment") {
  const Files files;
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"F64", bytes_of<double>({3, -1})},
      {"F32", bytes_of<float>({3, -1})},
      {"BF16", bytes_of<std::uint16_t>({Bf16(3).bits, Bf16(-1).bits})},
      {"F16", bytes_of<std::uint16_t>({F16(3).bits, F16(-1).bits})},
      {"I64", bytes_of<std::int64_t>({3, -1})},
      {"I32", bytes_of<std::int32_t>({3, -1})}};

  for (const auto& [type, data] : kinds) {
    for (std::size_t pad = 0; pad < 3; ++pad) {
      const std::string end = std::to_string(data.size());
      const std::string header = one(type, "[2]", "[0," + end + "]") + std::string(pad, ' ');
      CHECK(SafetensorsFile(files.write(with_header(header, data))).values("w") == std::vector<double>{3, -1});
    }
  }
  CHECK(SafetensorsFile(files.write(with_header(one("U8", "[2]", "[0,2]"), "\x03\xff"))).values("w") ==
        std::vector<double>{3, 255});
  CHECK(SafetensorsFile(files.write(with_header(one("U16", "[1]", "[0,2]"), "\x03\xff"))).values("w") ==
        std::vector<double>{65283});
}

TEST_CASE("a name that is not there is answered with the nearest") {
  const Files files;
  const SafetensorsFile file(files.write(with_header(one("U8", "[1]", "[0,1]"), "x")));
  const SafetensorsFile masks(files.write(with_header(one("BOOL", "[1]", "[0,1]"), "x")));

  CHECK_THAT(error_of([&] { file.at("v"); }), Contains("3: ") && Contains("no tensor \"v\"") && Contains("\"w\""));
  CHECK_THAT(error_of([&] { masks.at("w"); }), Contains("type BOOL"));
  CHECK_THAT(error_of([&] { masks.at("v"); }), Contains("none at all"));
}

TEST_CASE("files that are not there or too short are refused") {
  const Files files;

  CHECK_THAT(error_of([&] { SafetensorsFile(files.folder / "none"); }),
             Contains("3: ") && Contains("cannot be opened"));
  CHECK_THAT(error_of([&] { SafetensorsFile(files.folder.path()); }), Contains("not a regular file"));
  CHECK_THAT(error_of([&] { SafetensorsFile(files.write("")); }), Contains("has 0 bytes"));
  CHECK_THAT(error_of([&] { SafetensorsFile(files.write("1234567")); }), Contains("has 7 bytes"));
  CHECK_THAT(error_of([&] { SafetensorsFile(files.write("PK\x03\x04 a zip file of old")); }),
             Contains("announces a header of"));
  CHECK_THAT(error_of([&] { SafetensorsFile(files.write(std::string(8, '\xff'))); }), Contains("18446744073709551615"));
}

TEST_CASE("headers that contradict themselves or the file are refused by name") {
  const Files files;

  CHECK(files.error(one("F32", "[2]", "[0,8]"), "12345678") == "no error");
  CHECK_THAT(files.error("", ""), Contains("3: ") && Contains("not JSON"));
  CHECK_THAT(files.error("[]", ""), Contains("not a JSON object"));
  CHECK_THAT(files.error(R"({"w":3})", ""), Contains("\"w\" is not described"));
  CHECK_THAT(files.error(R"({"w":{"shape":[1],"data_offsets":[0,4]}})", "1234"), Contains("has no \"dtype\""));
  CHECK_THAT(files.error(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), Contains("has no list \"shape\""));
  CHECK_THAT(files.error(one("F33", "[2]", "[0,8]"), "12345678"), Contains("unknown dtype F33"));
  CHECK_THAT(files.error(one("F32", "[2]", "[0,8]"), "1234567"), Contains("there are 7 bytes"));
  CHECK_THAT(files.error(one("F32", "[2]", "[0,8]"), "123456789"), Contains("end at byte 8 of 9"));
  CHECK_THAT(files.error(one("F32", "[2]", "[8,0]"), "12345678"), Contains("lies at bytes 8 to 0"));
  CHECK_THAT(files.error(one("F32", "[2]", "[0,4]"), "1234"), Contains("need 8") || Contains("need more"));
  CHECK_THAT(files.error(one("F32", "[-2]", "[0,8]"), "12345678"), Contains("is -2, expected a size"));
  CHECK_THAT(files.error(one("F32", "[2.0]", "[0,8]"), "12345678"), Contains("expected a size"));
  CHECK_THAT(files.error(one("F32", "[2]", "[0,8,9]"), "12345678"), Contains("3 data_offsets"));
  CHECK_THAT(files.error(one("F32", "[4611686018427387904,4]", "[0,0]"), ""), Contains("more than the file has"));
  CHECK_THAT(files.error(one("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]"), ""), Contains("no error"));
  CHECK_THAT(
      files.error(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          "123"),
      Contains("\"b\" begins at byte 1, expected 2"));
  CHECK_THAT(
      files.error(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
          "123"),
      Contains("\"b\" begins at byte 2, expected 1"));
  CHECK_THAT(
      files.error(
          R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          "1"),
      Contains("names \"w\" twice"));
  CHECK_THAT(files.error(R"({"__metadata__":{"a":1}})", ""), Contains("__metadata__"));
  CHECK_THAT(files.error(std::string(200000, '['), ""), Contains("not JSON"));
}

TEST_CASE("random damage and cuts never crash a reader") {
  const Files files;
  const std::string good = with_header(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b.c":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]},"d":{"dtype":"BOOL","shape":[2],"data_offsets":[34,36]}})",
      std::string(36, 'x'));
  REQUIRE(error_of([&] { SafetensorsFile(files.write(good)); }) == "no error");
  std::uint64_t draws = 0;
  const auto below = [&](std::size_t n) { return random_word({11, 0, 0}, draws++) % n; };
  const std::string alphabet = "0123456789-.eE\"\\{}[],: \x80\xff";

  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t place = below(bytes.size());
      const std::size_t kind = below(4);
      if (kind == 0) bytes[place] = static_cast<char>(below(256));
      if (kind == 1) bytes[place] = alphabet[below(alphabet.size())];
      if (kind == 2) bytes.insert(place, 1, alphabet[below(alphabet.size())]);
      if (kind == 3) bytes.erase(place, 1 + below(3));
      if (bytes.empty()) bytes.push_back('x');
    }
    if (below(4) == 0) bytes.resize(below(bytes.size()));
    read_all(files.write(bytes));
  }
  SUCCEED("no crash");
}
