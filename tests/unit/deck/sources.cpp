#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

namespace {

std::string read_message(const std::string& file) {
  try {
    read_deck_files(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an including deck wins key by key over the included") {
  const Folder folder("include");
  folder.write("base/model.toml", "include = \"../common.toml\"\n[model]\nlayers = 3\nhidden = 64\nheads = 4\n");
  folder.write("common.toml", "[model]\nlayers = 2\nsequence = 99\n" + k_mock);
  const std::string file = folder.write("main.toml", "include = [\"base/model.toml\"]\n[model]\nhidden = 128\n");

  const Deck deck = parse_deck(read_deck_files(file), {}, 0);

  CHECK(deck.model.hidden == 128);
  CHECK(deck.model.layers == 3);
  CHECK(deck.model.sequence == 99);
}

TEST_CASE("of two included decks the later wins, and one may be included twice") {
  const Folder folder("later");
  folder.write("one.toml", "include = \"zero.toml\"\n[run]\nsteps = 1\n");
  folder.write("two.toml", "include = \"zero.toml\"\n[run]\nsteps = 2\n");
  folder.write("zero.toml", k_mock);
  const std::string file = folder.write("main.toml", "include = [\"one.toml\", \"two.toml\"]\n");

  CHECK(parse_deck(read_deck_files(file), {}, 0).run.steps == 2);
}

TEST_CASE("data paths are relative to the deck that states them") {
  const Folder folder("paths");
  folder.write("sub/data.toml", "[data]\npaths = [\"a.txt\"]\n");
  const std::string file =
      folder.write("main.toml", "include = \"sub/data.toml\"\n[data]\nvalidation_paths = [\"b.txt\"]\n");

  const Deck deck = parse_deck(read_deck_files(file), {}, 0);

  CHECK(deck.data.paths == std::vector<std::string>{folder.path("sub/a.txt")});
  CHECK(deck.data.validation_paths == std::vector<std::string>{folder.path("b.txt")});
}

TEST_CASE("messages about an included deck name that deck") {
  const Folder folder("name");
  const std::string included = folder.write("inner.toml", "\n[model]\nhiden = 3\n");
  const std::string file = folder.write("main.toml", "include = \"inner.toml\"\n" + k_mock);

  CHECK_THROWS_WITH(parse_deck(read_deck_files(file), {}, 0), Catch::Contains(included + ":3: model.hiden"));
}

TEST_CASE("bad includes are errors with file and line") {
  const Folder folder("bad");
  const std::string loop = folder.write("loop.toml", "include = \"loop2.toml\"\n");
  folder.write("loop2.toml", "\ninclude = \"loop.toml\"\n");
  const std::string missing = folder.write("missing.toml", "\n\ninclude = \"nowhere.toml\"\n");
  const std::string type = folder.write("type.toml", "include = [1]\n");

  CHECK(contains(read_message(loop), "loop2.toml:2: include: "));
  CHECK(contains(read_message(loop), "includes itself"));
  CHECK(contains(read_message(missing), "missing.toml:3: include: cannot read the deck"));
  CHECK(contains(read_message(missing), "No such file"));
  CHECK(contains(read_message(type),
                 "type.toml:1: include: expected a file name or a list of file names, found the integer 1"));
  CHECK(contains(read_message(folder.path("none.toml")), "cannot read the deck"));
  CHECK(contains(read_message(folder.path("")), "is a folder, expected a deck"));
}

TEST_CASE("decks that include each other more and more are stopped") {
  const Folder folder("growth");
  folder.write("d0.toml", k_mock);
  for (int i = 1; i <= 12; ++i) {
    const std::string inner = "\"d" + std::to_string(i - 1) + ".toml\"";
    folder.write("d" + std::to_string(i) + ".toml", "include = [" + inner + ", " + inner + "]\n");
  }

  CHECK(contains(read_message(folder.path("d12.toml")), "more than 200 included files"));
}

TEST_CASE("packed decks unpack to the same bytes") {
  const std::vector<DeckSource> sources{{"a b.toml", "x = 1\n"}, {"", ""}, {"c", std::string("\0\xff 3 4 ", 7)}};

  const std::vector<DeckSource> again = unpack(pack(sources));

  REQUIRE(again.size() == sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    CHECK(again[i].file == sources[i].file);
    CHECK(again[i].text == sources[i].text);
  }
  CHECK(unpack("").empty());
  CHECK_THROWS(unpack("5 5 abc"));
}
