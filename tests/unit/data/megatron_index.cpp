// Indexes that Megatron's preprocessing writes beside .bin files.

#include "catch.h"
#include "help.h"

namespace trireme {

using Catch::Matchers::Contains;

TEST_CASE("the Megatron index decides the element") {
  const TemporaryFolder folder;
  const Ids ids{7, 8, 9, 10, 11};
  folder.write("u8.bin", bytes_of(std::vector<std::uint8_t>{7, 8, 9, 10, 11}));
  folder.write("u8.idx", index_of(1, 1, {2, 0, 3}).bytes());
  folder.write("u16.bin", bytes_of(std::vector<std::uint16_t>{7, 8, 9, 10, 11}));
  folder.write("u16.idx", index_of(8, 2, {5}).bytes());
  folder.write("i32.bin", bytes_of(ids));
  folder.write("i32.idx", index_of(4, 4, {1, 1, 1, 1, 1}).bytes());
  folder.write("i64.bin", bytes_of(std::vector<std::int64_t>{7, 8, 9, 10, 11}));
  folder.write("i64.idx", index_of(5, 8, {4, 1}).bytes());

  for (const char* name : {"u8", "u16", "i32", "i64", "i32.bin", "i32.idx"}) {
    const TokenSplit split = open_all(deck_of("tokens", {folder / name}));
    CHECK(all_ids(*split.training) == ids);
  }
}

TEST_CASE("a Megatron index that contradicts itself, the .bin or the deck is refused with what was found") {
  const TemporaryFolder folder;
  folder.write("a.bin", bytes_of(std::vector<std::uint16_t>{7, 8, 9, 10, 11}));
  IndexBytes index = index_of(8, 2, {2, 3});
  DataDeck data = deck_of("tokens", {folder / "a"});
  const auto error = [&](const std::string& bytes) {
    folder.write("a.idx", bytes);
    return error_of([&] { open_all(data); });
  };
  const auto changed = [&](auto change) {
    IndexBytes copy = index;
    change(copy);
    return error(copy.bytes());
  };

  CHECK(error(index.bytes()) == "no error");
  CHECK_THAT(error("short"), Contains("3: ") && Contains("has 5 bytes"));
  CHECK_THAT(error(index.bytes() + "x"), Contains("has 83 bytes") && Contains("need 82"));
  CHECK_THAT(error(index.bytes().substr(0, 60)), Contains("has 60 bytes"));
  CHECK_THAT(error(index.bytes() + std::string(3, '\0')), Contains("has 85 bytes") && Contains("need 82"));
  CHECK_THAT(changed([](auto& x) { x.magic[0] = 'X'; }), Contains("MMIDIDX"));
  CHECK_THAT(changed([](auto& x) { x.version = 2; }), Contains("version is 2, expected 1"));
  CHECK_THAT(changed([](auto& x) { x.code = 7; }), Contains("floating-point"));
  CHECK_THAT(changed([](auto& x) { x.code = 77; }), Contains("dtype code is 77"));
  CHECK_THAT(changed([](auto& x) { x.code = 4; }), Contains("a.idx"));
  CHECK_THAT(changed([](auto& x) { x.lengths[1] = 4; }), Contains("end at byte 12") && Contains("has 10 bytes"));
  CHECK_THAT(changed([](auto& x) { x.lengths[0] = -1; }), Contains("length -1"));
  CHECK_THAT(changed([](auto& x) { x.offsets[1] = 6; }), Contains("ends at byte 4, the next one begins at 6"));
  CHECK_THAT(changed([](auto& x) { x.offsets[1] = std::int64_t{1} << 62; }), Contains("begins at"));
  CHECK_THAT(changed([](auto& x) { x.documents[2] = 1; }), Contains("document index ends with 1"));
  CHECK_THAT(changed([](auto& x) { x.documents[1] = 5; }), Contains("document index decreases"));
  data.dtype = "i32";
  CHECK_THAT(error(index.bytes()), Contains("data.dtype = \"i32\"") && Contains("says u16"));
}

TEST_CASE("modes of sequences are ignored with a note") {
  const TemporaryFolder folder;
  folder.write("a.bin", bytes_of(std::vector<std::uint16_t>{7, 8, 9, 10, 11}));
  const std::string plain = index_of(8, 2, {2, 3}).bytes();
  folder.write("a.idx", plain);
  const TokenSplit without = open_all(deck_of("tokens", {folder / "a"}));
  folder.write("a.idx", plain + std::string("\0\1", 2));

  const TokenSplit with = open_all(deck_of("tokens", {folder / "a"}));

  CHECK(all_ids(*with.training) == all_ids(*without.training));
  CHECK(with.training->document_starts(0, 5) == without.training->document_starts(0, 5));
  CHECK(with.training->fingerprint() == without.training->fingerprint());
  CHECK_THAT(with.training->describe(), Contains("mode (multimodal data), which is ignored"));
  CHECK_THAT(without.training->describe(), !Contains("multimodal"));
}

TEST_CASE("absurd counts in a Megatron index do not allocate") {
  const TemporaryFolder folder;
  folder.write("a.bin", "abcd");
  std::string bytes = index_of(8, 2, {2}).bytes();
  for (std::size_t i = 18; i < 26; ++i) bytes[i] = '\xff';
  folder.write("a.idx", bytes);

  CHECK_THAT(error_of([&] { open_all(deck_of("tokens", {folder / "a"})); }), Contains("far more"));
}

TEST_CASE("a long Megatron index is checked in samples that include its end") {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> lengths(9 << 20, 1);  // offsets of 72 MiB: above what is read in full
  const IndexBytes index = index_of(1, 1, lengths);
  folder.write("a.bin", std::string(lengths.size(), 'x'));
  folder.write("a.idx", index.bytes());

  CHECK(open_all(deck_of("tokens", {folder / "a"})).training->n_tokens() == 9 << 20);
  folder.write("a.bin", std::string(lengths.size() + 1, 'x'));
  CHECK_THAT(error_of([&] { open_all(deck_of("tokens", {folder / "a"})); }), Contains("end at byte 9437184"));
}

TEST_CASE("documents begin where the index says, whatever window is asked for") {
  const TemporaryFolder folder;
  IndexBytes index = index_of(1, 1, {2, 0, 3, 1, 1, 4, 0});
  index.documents = {0, 1, 2, 2, 4, 6, 7};  // documents of sequences 0 | 1 (empty) | none | 2, 3 | 4, 5 | 6 (empty)
  folder.write("a.bin", std::string(11, 'x'));
  folder.write("a.idx", index.bytes());
  folder.write("b.bin", std::string(3, 'y'));
  folder.write("b.idx", index_of(1, 1, {3}).bytes());
  const TokenSplit split = open_all(deck_of("tokens", {folder / "a", folder / "b"}));
  const std::vector<std::int64_t> all{0, 2, 6, 11};

  for (std::int64_t first = 0; first < 14; ++first) {
    for (std::int64_t count = 0; first + count <= 14; ++count) {
      std::vector<std::int64_t> expected;
      for (const std::int64_t start : all) {
        if (start >= first && start < first + count) expected.push_back(start);
      }
      INFO(first << " " << count);
      CHECK(split.training->document_starts(first, count) == expected);
    }
  }
}

}  // namespace trireme
