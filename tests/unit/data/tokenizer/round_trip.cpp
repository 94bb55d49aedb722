#include "round_trip.h"

#include <thread>

#include "catch.h"
#include "expected.h"

namespace trireme {

namespace {

void survives(const std::string& name, int n, std::uint64_t seed) {
  const auto tokenizer = open_known(name);
  RandomText random(seed);
  for (int i = 0; i < n; ++i) {
    const std::string text = random.next();
    const Ids ids = tokenizer->encode(text);
    if (tokenizer->decode(ids) != text) FAIL(name << " does not give back " << nlohmann::json(text).dump());
    StreamDecoder decoder(*tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += decoder.push(id);
    if (streamed + decoder.finish() != text) FAIL(name << " does not stream back " << nlohmann::json(text).dump());
  }
}

// Tokenizers that change no text; SentencePiece and Metaspace read U+2581 as a space.
const char* const k_exact[] = {"gpt2", "llama3_style", "tekken", "old_llama3", "digits"};

}  // namespace

TEST_CASE("decoding gives back every valid text") {
  for (const char* name : k_exact) survives(name, std::string(name) == "gpt2" ? 20000 : 3000, 1);
  SUCCEED();
}

TEST_CASE("decoding gives back a million valid texts", "[.long]") {
  survives("gpt2", 1000000, 2);
  survives("llama3_style", 1000000, 3);
  SUCCEED();
}

TEST_CASE("text that is not UTF-8 is read with replacement characters") {
  const auto tokenizer = open_known("gpt2");

  CHECK(tokenizer->encode("a\xFF"
                          "b") == tokenizer->encode("a\uFFFDb"));
  CHECK(tokenizer->decode(tokenizer->encode("\xE2\x82")) == "\uFFFD");
}

TEST_CASE("long words take time in proportion and give what short steps give") {
  const auto tokenizer = open_known("gpt2");
  std::string word;
  RandomText random(5);
  while (word.size() < 1000000) word += static_cast<char>('a' + random.below(26));

  const Ids ids = tokenizer->encode(word);  // minutes when merging is quadratic

  CHECK(tokenizer->decode(ids) == word);
  CHECK(ids.size() < word.size());
}

TEST_CASE("several threads encode as one does") {
  const auto tokenizer = open_known("gpt2");
  const std::string text = read_text(data_path("tinyshakespeare.txt")).substr(0, 100000);
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> made(4);

  std::vector<std::thread> threads;
  for (Ids& ids : made) threads.emplace_back([&] { ids = tokenizer->encode(text); });
  for (std::thread& thread : threads) thread.join();

  for (const Ids& ids : made) CHECK(ids == expected);
}

}  // namespace trireme
