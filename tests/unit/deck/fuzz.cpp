#include <random>

#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

namespace {

std::string mutated(std::string text, std::mt19937& random) {
  const int n_changes = 1 + static_cast<int>(random() % 8);
  for (int i = 0; i < n_changes && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(random() % 12, text.size() - at);
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, 1 + random() % 3, "0123456789-.[]{}=\"'\n#\\e"[random() % 23]);
        break;
      case 3:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      default:
        std::swap(text[at], text[random() % text.size()]);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("mutated decks are read or refused, never a crash") {
  std::mt19937 random(7);
  const std::string valid = print_deck(parse(k_mock + "[parallel]\npipeline = 2\nstage_layers = [5, 7]\n"));
  int n_read = 0, n_refused = 0;

  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutated(valid, random);
    try {
      const Deck deck = parse(text, {}, static_cast<int>(random() % 9));
      CHECK(print_deck(parse(print_deck(deck))) == print_deck(deck));
      ++n_read;
    } catch (const Error& error) {
      if (error.code != Exit::usage || std::string(error.what()).empty()) FAIL(error.what());
      ++n_refused;
    }
  }

  CHECK(n_read > 0);
  CHECK(n_refused > 0);
}

TEST_CASE("mutated overrides are taken or refused, never a crash") {
  std::mt19937 random(11);

  for (int i = 0; i < 2000; ++i) {
    try {
      parse(k_mock, {mutated("parallel.stage_layers=[1, 2, 3]", random), mutated("model.hidden=768", random)}, 4);
    } catch (const Error& error) {
      if (error.code != Exit::usage) FAIL(error.what());
    }
  }
  SUCCEED();
}
