#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

TEST_CASE("overrides win over the deck, later ones over earlier ones") {
  const Deck deck = parse(k_mock + "[run]\nsteps = 5\n", {"run.steps=6", "run.steps = 7"});

  CHECK(deck.run.steps == 7);
}

TEST_CASE("the value of an override is TOML, a bare word is a string") {
  const Deck deck = parse(k_mock, {"model.norm=rms", "run.name=7b", "log.file=", "run.resume=\"never\"", "lr.max=1e-3",
                                   "parallel.pipeline=2", "parallel.stage_layers=[5, 7]", "parallel.zero=false"});

  CHECK(deck.model.norm == "rms");
  CHECK(deck.run.name == "7b");
  CHECK(deck.log.file.empty());
  CHECK(deck.run.resume == "never");
  CHECK(deck.lr.max == 1e-3);
  CHECK(deck.parallel.stage_layers == std::vector<std::int64_t>{5, 7});
  CHECK_FALSE(deck.parallel.zero);
}

TEST_CASE("a string key takes what looks like another type as it stands") {
  CHECK(parse(k_mock, {"run.name=2024"}).run.name == "2024");
  CHECK(parse(k_mock, {"run.name=2024-01-02"}).run.name == "2024-01-02");
  CHECK(parse(k_mock, {"run.name=true"}).run.name == "true");
  CHECK(parse(k_mock, {"run.name=a=b"}).run.name == "a=b");
}

TEST_CASE("overrides cannot smuggle in other keys") {
  CHECK(contains(message(k_mock, {"run.steps=1\nx=2"}),
                 "command line: run.steps: expected an integer, found the string"));
}

TEST_CASE("bad overrides say what was typed and the form") {
  CHECK(message(k_mock, {"run.steps"}) ==
        "command line: found \"run.steps\", expected section.key=value, for example run.steps=100");
  CHECK(contains(message(k_mock, {"steps=3"}), "did you mean run.steps?"));
  CHECK(contains(message(k_mock, {"model.hiden=3"}),
                 "command line: model.hiden: unknown key; did you mean model.hidden?"));
  CHECK(contains(message(k_mock, {"modle.hidden=3"}), "did you mean model.hidden?"));
  CHECK(contains(message(k_mock, {"batch.global=eight"}),
                 "command line: batch.global: expected an integer, found the string"));
  CHECK(contains(message(k_mock, {"run.steps="}), "expected an integer, found the string \"\""));
  CHECK(contains(message(k_mock, {"run.name=\xff"}), "command line: run.name: not UTF-8 text"));
  CHECK(contains(message(k_mock, {"=3"}), "expected section.key=value"));
}

TEST_CASE("paths on the command line are relative to the working folder") {
  const Deck deck = parse_deck({{"/decks/a.toml", ""}}, std::vector<std::string>{"data.paths=x.txt"}, 0);

  CHECK(deck.data.paths == std::vector<std::string>{(std::filesystem::current_path() / "x.txt").string()});
}
