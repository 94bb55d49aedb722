#include "../help.h"
#include "catch.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

TEST_CASE("the byte tokenizer keeps every byte") {
  const auto tokenizer = open_tokenizer("byte", "test");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);

  CHECK(tokenizer->decode(tokenizer->encode(all)) == all);
  CHECK(tokenizer->encode("h\xc3\xa9") == Ids{'h', 0xc3, 0xa9});
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->end_of_document() == 256);
  CHECK(tokenizer->id_of("a") == 97);
  CHECK(tokenizer->id_of("<|endoftext|>") == 256);
  CHECK_FALSE(tokenizer->id_of("ab").has_value());
  CHECK(tokenizer->piece(-1).empty());
  CHECK(tokenizer->piece(257).empty());
}

TEST_CASE("a stream decoder withholds characters until they are complete") {
  const auto tokenizer = open_tokenizer("byte", "test");
  StreamDecoder decoder(*tokenizer);
  const std::string euro = "\xE2\x82\xAC";

  CHECK(decoder.push('a') == "a");
  CHECK(decoder.push(0xE2).empty());
  CHECK(decoder.push(0x82).empty());
  CHECK(decoder.push(0xAC) == euro);
  CHECK(decoder.finish().empty());
}

TEST_CASE("a stream decoder replaces what cannot become a character") {
  const auto tokenizer = open_tokenizer("byte", "test");
  StreamDecoder decoder(*tokenizer);

  CHECK(decoder.push(0xE2).empty());
  CHECK(decoder.push('b') ==
        "\xEF\xBF\xBD"
        "b");
  CHECK(decoder.push(0xFF) == "\xEF\xBF\xBD");
  CHECK(decoder.push(0xF0).empty());
  CHECK(decoder.push(0x9F).empty());
  CHECK(decoder.finish() == "\xEF\xBF\xBD");
  CHECK(decoder.push('c') == "c");
}

}  // namespace trireme
