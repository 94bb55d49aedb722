#include "trireme/data/token_source.h"

#include <algorithm>
#include <numeric>

#include "catch.h"
#include "help.h"
#include "trireme/base/philox.h"

namespace trireme {

using Catch::Matchers::Contains;

TEST_CASE("text is its bytes with an end-of-document token after each file") {
  const TemporaryFolder folder;
  const auto a = folder.write("a.txt", "hi\n"), b = folder.write("b.txt", "\xc3\xa9");

  const TokenSplit split = open_all(deck_of("text", {a, b}), 257);

  CHECK(all_ids(*split.training) == Ids{'h', 'i', '\n', 256, 0xc3, 0xa9, 256});
  CHECK(split.validation == nullptr);
  CHECK_THAT(split.training->describe(), Contains("2 text files, 7 tokens"));
}

TEST_CASE("every window of a text source equals that part of the whole") {
  const TemporaryFolder folder;
  const TokenSplit split =
      open_all(deck_of("text", {folder.write("a", "abc"), folder.write("b", "d"), folder.write("c", "efghi")}), 257);
  const Ids whole = all_ids(*split.training);

  for (std::int64_t first = 0; first < split.training->n_tokens(); ++first) {
    for (std::int64_t count = 0; first + count <= split.training->n_tokens(); ++count) {
      CHECK(read_ids(*split.training, first, count) == Ids(whole.begin() + first, whole.begin() + first + count));
    }
  }
}

TEST_CASE("data.eod replaces the end-of-document token of text") {
  const TemporaryFolder folder;
  DataDeck data = deck_of("text", {folder.write("a.txt", "ab")});
  data.eod = 10;

  CHECK(all_ids(*open_all(data, 128).training) == Ids{'a', 'b', 10});
}

TEST_CASE("a vocabulary without room for the end-of-document token is refused") {
  const TemporaryFolder folder;
  const DataDeck data = deck_of("text", {folder.write("a.txt", "ab")});

  CHECK_THAT(error_of([&] { open_all(data, 256); }), Contains("2: ") && Contains("set model.vocab = 257"));
}

TEST_CASE("files that cannot be read are refused by name and reason") {
  const TemporaryFolder folder;
  const auto empty = folder.write("empty.txt", "");

  CHECK_THAT(error_of([&] { open_all(deck_of("text", {folder / "no.txt"})); }),
             Contains("3: ") && Contains("no.txt does not exist"));
  CHECK_THAT(error_of([&] { open_all(deck_of("text", {folder.path()})); }), Contains("is a folder"));
  CHECK_THAT(error_of([&] { open_all(deck_of("text", {empty})); }), Contains("empty.txt is empty"));
  CHECK_THAT(error_of([&] { open_all(deck_of("tokens", {folder / "no"})); }), Contains("no.bin does not exist"));
  CHECK_THAT(error_of([&] { open_all(deck_of("text", {"/dev/null"})); }), Contains("not a regular file"));
  CHECK_THAT(error_of([&] { open_all(deck_of("text", {})); }), Contains("2: ") && Contains("data.paths is empty"));
}

TEST_CASE("text with a NUL byte is refused with its place and the way out") {
  const TemporaryFolder folder;
  const auto binary = folder.write("a.txt", std::string("abc\0def", 7));

  const std::string error = error_of([&] { open_all(deck_of("text", {binary})); });

  CHECK_THAT(error, Contains("3: ") && Contains("a.txt: byte 3 is NUL") && Contains("data.source = \"tokens\""));
}

TEST_CASE("a NUL byte written after opening is found when it is read") {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", "abcdef");
  const TokenSplit split = open_all(deck_of("text", {path}), 257);

  folder.write("a.txt", std::string("abcd\0f", 6));

  CHECK(read_ids(*split.training, 0, 4) == Ids{'a', 'b', 'c', 'd'});
  CHECK_THAT(error_of([&] { read_ids(*split.training, 3, 3); }), Contains("byte 4 is NUL"));
}

TEST_CASE("a file that is cut short while it is used is an error, not a crash") {
  const TemporaryFolder folder;
  const auto path = folder.write("a.txt", "abcdef");
  const TokenSplit split = open_all(deck_of("text", {path}), 257);

  std::filesystem::resize_file(path, 2);

  CHECK_THAT(error_of([&] { read_ids(*split.training, 0, 6); }), Contains("3: ") && Contains("cut short"));
}

TEST_CASE("a raw .bin is read by data.dtype, or by the vocabulary when that is auto") {
  const TemporaryFolder folder;
  const Ids ids{5, 0, 50256, 17};
  folder.write("narrow.bin", bytes_of(std::vector<std::uint16_t>{5, 0, 50256, 17}));
  folder.write("wide.bin", bytes_of(ids));
  folder.write("byte.bin", std::string("\x01\x02\xff", 3));
  DataDeck wide = deck_of("tokens", {folder / "wide.bin"}), byte = deck_of("tokens", {folder / "byte"});
  wide.dtype = "i32";
  byte.dtype = "u8";

  CHECK(all_ids(*open_all(deck_of("tokens", {folder / "narrow"})).training) == ids);
  CHECK(all_ids(*open_all(wide).training) == ids);
  CHECK(all_ids(*open_all(deck_of("tokens", {folder / "wide"}), 128256).training) == ids);
  CHECK(all_ids(*open_all(byte).training) == Ids{1, 2, 255});
}

TEST_CASE("a .bin that is no multiple of its element is refused") {
  const TemporaryFolder folder;
  folder.write("a.bin", "abc");

  CHECK_THAT(error_of([&] { open_all(deck_of("tokens", {folder / "a"})); }),
             Contains("3: ") && Contains("3 bytes") && Contains("u16"));
}

TEST_CASE("ids outside the vocabulary name file, place, id and vocabulary when they are read") {
  const TemporaryFolder folder;
  const auto good = folder.write("good.bin", bytes_of(std::vector<std::uint16_t>{1, 2, 3}));
  const auto bad = folder.write("bad.bin", bytes_of(std::vector<std::uint16_t>{4, 5, 999, 6}));
  const TokenSplit split = open_all(deck_of("tokens", {good, bad}), 100);

  CHECK(read_ids(*split.training, 0, 5) == Ids{1, 2, 3, 4, 5});
  CHECK_THAT(error_of([&] { all_ids(*split.training); }),
             Contains("3: ") && Contains("bad.bin: token 2") && Contains("is 999") && Contains("model.vocab = 100"));
}

TEST_CASE("negative and oversized ids are refused") {
  const TemporaryFolder folder;
  folder.write("minus.bin", bytes_of(Ids{1, -2, 3}));
  folder.write("large.bin", bytes_of(std::vector<std::int64_t>{1, 2, 4294967297}));
  folder.write("large.idx", index_of(5, 8, {3}).bytes());
  DataDeck minus = deck_of("tokens", {folder / "minus"});
  minus.dtype = "i32";

  CHECK_THAT(error_of([&] { all_ids(*open_all(minus).training); }), Contains("token 1"));
  CHECK_THAT(error_of([&] { all_ids(*open_all(deck_of("tokens", {folder / "large"})).training); }),
             Contains("token 2"));
}

TEST_CASE("mock tokens depend on seed and index only and need no memory") {
  const TokenSplit split = open_tokens(deck_of("mock", {}), 1000, 4, 7);
  const Ids far = read_ids(*split.training, (std::int64_t{1} << 40) - 3, 3);

  CHECK(split.training->n_tokens() == std::int64_t{1} << 40);
  CHECK(read_ids(*split.training, 5, 1)[0] ==
        static_cast<std::int32_t>(random_word({7, stream_of("mock"), 0}, 5) % 1000));
  CHECK(read_ids(*split.training, 3, 4) == [&] {
    const Ids more = read_ids(*split.training, 0, 10);
    return Ids(more.begin() + 3, more.begin() + 7);
  }());
  CHECK(std::all_of(far.begin(), far.end(), [](std::int32_t id) { return id >= 0 && id < 1000; }));
  CHECK(read_ids(*split.training, 0, 8) != read_ids(*open_tokens(deck_of("mock", {}), 1000, 4, 8).training, 0, 8));
}

TEST_CASE("the end of the data is held out for validation and training never sees it") {
  const TemporaryFolder folder;
  Ids ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  folder.write("a.bin", bytes_of(std::vector<std::uint16_t>(ids.begin(), ids.end())));
  DataDeck data = deck_of("tokens", {folder / "a"});
  data.validation_fraction = 0.2;

  const TokenSplit split = open_all(data, 100);

  CHECK(all_ids(*split.training) == Ids(ids.begin(), ids.begin() + 80));
  CHECK(all_ids(*split.validation) == Ids(ids.begin() + 80, ids.end()));
  CHECK_THROWS(read_ids(*split.training, 79, 2));
}

TEST_CASE("validation_paths are read instead of holding out") {
  const TemporaryFolder folder;
  DataDeck data = deck_of("text", {folder.write("a.txt", "abcdefgh")});
  data.validation_paths = {folder.write("b.txt", "12345")};
  data.validation_fraction = 0.5;

  const TokenSplit split = open_all(data, 257);

  CHECK(split.training->n_tokens() == 9);
  CHECK(all_ids(*split.validation) == Ids{'1', '2', '3', '4', '5', 256});
  data.validation_paths = {folder.write("b.txt", "123")};
  CHECK_THAT(error_of([&] { open_all(data, 257); }), Contains("3: ") && Contains("hold 4 tokens") && Contains("= 5"));
}

TEST_CASE("too little to hold out is an error only where the fraction was chosen") {
  const TemporaryFolder folder;
  DataDeck data = deck_of("text", {folder.write("a.txt", "abcdefghij")});

  data.validation_fraction = DataDeck{}.validation_fraction;
  const TokenSplit split = open_all(data, 257);
  data.validation_fraction = 0.25;
  const std::string error = error_of([&] { open_all(data, 257); });

  CHECK(split.validation == nullptr);
  CHECK(split.training->n_tokens() == 11);
  CHECK_THAT(error, Contains("3: ") && Contains("leave 9, 2 and 0 of 11") && Contains("model.sequence + 1 = 5"));
}

TEST_CASE("the fingerprint follows the contents, the cut and the reading, not the name") {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const std::string& path, double fraction, std::int64_t eod) {
    DataDeck data = deck_of("text", {path});
    data.validation_fraction = fraction;
    data.eod = eod;
    return open_all(data, 300).training->fingerprint();
  };
  const auto a = folder.write("a.txt", std::string(3000, 'a')), same = folder.write("b.txt", std::string(3000, 'a'));
  const auto other = folder.write("c.txt", std::string(1500, 'a') + "b" + std::string(1499, 'a'));

  CHECK(fingerprint(a, 0, -1) == fingerprint(same, 0, -1));
  CHECK(fingerprint(a, 0, -1) != fingerprint(other, 0, -1));
  CHECK(fingerprint(a, 0, -1) != fingerprint(a, 0.1, -1));
  CHECK(fingerprint(a, 0, -1) != fingerprint(a, 0, 270));
  CHECK(fingerprint(a, 0, -1) == "3001 tokens, hash " + fingerprint(a, 0, -1).substr(18));
}

TEST_CASE("without an index documents begin with files and behind end-of-document tokens") {
  const TemporaryFolder folder;
  folder.write("a.bin", bytes_of(std::vector<std::uint16_t>{1, 9, 9, 2, 9}));
  folder.write("b.bin", bytes_of(std::vector<std::uint16_t>{3, 9, 4}));
  DataDeck data = deck_of("tokens", {folder / "a", folder / "b"});
  using Places = std::vector<std::int64_t>;

  CHECK(open_all(data, 100).training->document_starts(0, 8) == Places{0, 5});
  data.eod = 9;
  const TokenSplit split = open_all(data, 100);
  CHECK(split.training->document_starts(0, 8) == Places{0, 2, 3, 5, 7});
  CHECK(split.training->document_starts(2, 4) == Places{2, 3, 5});
  CHECK(split.training->document_starts(3, 0).empty());
  const auto text = open_all(deck_of("text", {folder.write("a.txt", "ab"), folder.write("b.txt", "c")}), 257);
  CHECK(text.training->document_starts(0, 5) == Places{0, 3});
}

}  // namespace trireme
