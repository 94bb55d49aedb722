#include <algorithm>
#include <sstream>

#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

namespace {

// The head of a bad deck: "# expect: part of the message", one per line, and "# ranks: N".
struct Expectation {
  std::vector<std::string> parts;
  int n_ranks = 0;
};

Expectation expectation_of(const std::string& text) {
  Expectation expectation;
  std::istringstream lines(text);
  const std::string expect = "# expect: ", ranks = "# ranks: ";
  for (std::string line; std::getline(lines, line) && line.starts_with("#");) {
    if (line.starts_with(expect)) expectation.parts.push_back(line.substr(expect.size()));
    if (line.starts_with(ranks)) expectation.n_ranks = std::stoi(line.substr(ranks.size()));
  }
  return expectation;
}

std::vector<std::filesystem::path> decks_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TRIREME_SOURCE_DIR + folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every bad deck is refused with its message and nothing else") {
  const auto files = decks_in("/tests/bad_decks");
  REQUIRE(files.size() >= 20);

  for (const auto& file : files) {
    const std::string text = read_file(file);
    const Expectation expectation = expectation_of(text);
    const std::string said = message(text, {}, expectation.n_ranks);
    const auto n_lines = std::count(said.begin(), said.end(), '\n') + 1;

    INFO(file.filename().string() << " said:\n" << said);
    REQUIRE_FALSE(expectation.parts.empty());
    CHECK_FALSE(said.empty());
    CHECK(n_lines == static_cast<std::ptrdiff_t>(expectation.parts.size()));
    for (const std::string& part : expectation.parts) {
      INFO("missing: " << part);
      CHECK(contains(said, part));
    }
  }
}

TEST_CASE("every deck in inputs is accepted") {
  const auto files = decks_in("/inputs");
  REQUIRE(files.size() >= 2);

  for (const auto& file : files) {
    const bool reference = file.filename() == "reference.toml";
    const std::vector<std::string> overrides(reference ? 1 : 0, "data.source=mock");
    INFO(file.string());
    CHECK_NOTHROW(parse_deck(read_deck_files(file.string()), overrides, 0));
  }
}

TEST_CASE("the model decks fit the jobs their comments name") {
  const std::vector<std::pair<std::string, int>> jobs{
      {"gpt_124m", 1}, {"gpt_124m", 8},   {"gpt_1_3b", 8}, {"gpt_6_7b", 8},  {"gpt_13b", 16}, {"gpt_175b", 1024},
      {"llama_8b", 8}, {"llama_70b", 64}, {"demo", 4},     {"smoke_cpu", 1}, {"smoke_gpu", 8}};

  for (const auto& [name, n_ranks] : jobs) {
    const Deck deck = parse_deck(read_deck_files(TRIREME_SOURCE_DIR "/inputs/" + name + ".toml"), {}, n_ranks);
    INFO(name << " on " << n_ranks);
    CHECK(contradictions(deck, n_ranks).empty());
  }
}
