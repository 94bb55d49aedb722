#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

namespace {

const std::vector<std::string> k_all{"run", "model", "parallel", "precision",  "batch", "optimizer",
                                     "lr",  "data",  "eval",     "checkpoint", "log",   "device"};

std::string differences_text(const Deck& a, const Deck& b) {
  std::string text;
  for (const std::string& line : differences(a, b, k_all)) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("a printed deck reads back as the same deck") {
  const Deck deck = parse(k_mock + R"(
[run]
name = "quote \" backslash \\ tab \t bell \u0007 umlaut ü"
seed = 9223372036854775807
[lr]
max = 0.1
min = 1e-300
[optimizer]
eps = 1.2345678901234567e-8
weight_decay = 0.30000000000000004
[parallel]
pipeline = 2
stage_layers = [5, 7]
)");

  const std::string text = print_deck(deck);
  const Deck again = parse(text);

  CHECK(differences_text(deck, again).empty());
  CHECK(print_deck(again) == text);
  CHECK(again.optimizer.weight_decay == 0.30000000000000004);
  CHECK(again.run.name == deck.run.name);
  CHECK(again.parallel.stage_layers == std::vector<std::int64_t>{5, 7});
}

TEST_CASE("data paths survive printing into another folder") {
  const Deck deck = parse_deck({{"/decks/a.toml", "[data]\npaths = [\"x.txt\", \"../y.txt\", \"/z.txt\"]\n"}}, {}, 0);

  const Deck again = parse_deck({{"/runs/b/deck.toml", print_deck(deck)}}, {}, 0);

  CHECK(deck.data.paths == std::vector<std::string>{"/decks/x.txt", "/y.txt", "/z.txt"});
  CHECK(again.data.paths == deck.data.paths);
}

TEST_CASE("long lists print over several lines and read back") {
  std::vector<std::string> paths(40, "/a/long/path/of/a/text.txt");
  Deck deck = parse("[data]\npaths = [\"/x\"]\n");
  deck.data.paths = paths;

  CHECK(parse(print_deck(deck)).data.paths == paths);
}

TEST_CASE("the committed reference deck is the one the program prints") {
  CHECK(read_file(TRIREME_SOURCE_DIR "/inputs/reference.toml") == print_reference());
}

TEST_CASE("the reference deck states the defaults") {
  const Deck reference = parse(print_reference(), {"data.source=mock"});

  CHECK(differences_text(reference, parse(k_mock)).empty());
}

TEST_CASE("differences name key, here and there, in the asked sections only") {
  const Deck here = parse(k_mock), there = parse(k_mock + "[model]\nffn = 100\n[log]\nevery = 3\n");
  const std::vector<std::string> sections{"model"};

  const auto lines = differences(here, there, sections);

  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "model.ffn: 3072 here, 100 there");
}
