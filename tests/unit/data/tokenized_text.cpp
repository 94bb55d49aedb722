// data.source = "text" and "tokens" with a tokenizer.

#include "catch.h"
#include "help.h"
#include "trireme/data/token_description.h"
#include "trireme/data/token_writer.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

using Catch::Matchers::Contains;

namespace {

std::string tokenizer_path(const std::string& name) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/data/tokenizers/" + name;
}

DataDeck text_deck(const std::vector<std::string>& paths) {
  DataDeck data = deck_of("text", paths);
  data.tokenizer = tokenizer_path("qwen");
  return settle_data(data, 701).data;
}

}  // namespace

TEST_CASE("text is read through the tokenizer, an end of document behind each file") {
  const TemporaryFolder folder;
  const auto tokenizer = open_tokenizer(tokenizer_path("qwen"), "t");
  const DataDeck data = text_deck({folder.write("a.txt", "the king speaks"), folder.write("b.txt", "Romeo")});

  const TokenSplit split = open_all(data, 701);

  Ids expected = tokenizer->encode("the king speaks");
  expected.push_back(0);
  const auto second = static_cast<std::int64_t>(expected.size());
  for (const std::int32_t id : tokenizer->encode("Romeo")) expected.push_back(id);
  expected.push_back(0);
  CHECK(data.eod == 0);
  CHECK(all_ids(*split.training) == expected);
  CHECK(split.training->document_starts(0, split.training->n_tokens()) == std::vector<std::int64_t>{0, second});
  CHECK_THAT(split.training->describe(), Contains("2 text files") && Contains("byte-level BPE"));
  CHECK_THAT(split.training->fingerprint(), Contains(tokenizer->fingerprint()));
}

TEST_CASE("parts of tokenized text are those of the whole") {
  const TemporaryFolder folder;
  DataDeck data =
      text_deck({folder.write("a.txt", std::string(300, 'x')), folder.write("b.txt", std::string(100, 'y'))});
  const Ids whole = all_ids(*open_all(data, 701).training);
  data.validation_fraction = 0.3;

  const TokenSplit split = open_all(data, 701);

  Ids joined = all_ids(*split.training);
  for (const std::int32_t id : all_ids(*split.validation)) joined.push_back(id);
  CHECK(joined == whole);
  CHECK(split.validation->document_starts(0, split.validation->n_tokens()) == std::vector<std::int64_t>{0});
}

TEST_CASE("a vocabulary that is too small for the tokenizer is refused with what to set") {
  const TemporaryFolder folder;
  DataDeck data = deck_of("text", {folder.write("a.txt", "x")});
  data.tokenizer = tokenizer_path("qwen");

  CHECK_THAT(error_of([&] { settle_data(data, 700); }),
             Contains("2: model.vocab = 700") && Contains("set model.vocab = 701"));
  data.tokenizer = tokenizer_path("no");
  CHECK_THAT(error_of([&] { settle_data(data, 700); }), Contains("3: data.tokenizer") && Contains("does not exist"));
}

TEST_CASE("the description of token files says the same when it is read back") {
  const TemporaryFolder folder;
  const TokenDescription written{"a tokenizer", "its fingerprint", "/where/it/was", 701, 5, 12, 345};

  write_token_description(folder / "a", written);
  const auto read = read_token_description(folder / "a");

  REQUIRE(read.has_value());
  CHECK(read->tokenizer == written.tokenizer);
  CHECK(read->tokenizer_fingerprint == written.tokenizer_fingerprint);
  CHECK(read->tokenizer_path == written.tokenizer_path);
  CHECK(read->vocab == 701);
  CHECK(read->end_of_document == 5);
  CHECK(read->documents == 12);
  CHECK(read->tokens == 345);
  CHECK_FALSE(read_token_description(folder / "b").has_value());
}

TEST_CASE("token files of another tokenizer than the stated one, or of two, are refused") {
  const TemporaryFolder folder;
  const auto qwen = open_tokenizer(tokenizer_path("qwen"), "t");
  for (const char* name : {"a", "b"}) {
    TokenWriter writer(folder / name, Element::u16);
    writer.add_document(Ids{1, 2, 3, 4, 5, 0});
    writer.finish();
    write_token_description(folder / name, {qwen->describe(), qwen->fingerprint(), "", 701, 0, 1, 6});
  }
  DataDeck data = deck_of("tokens", {folder / "a", folder / "b.bin"});

  CHECK(settle_data(data, 701).tokenizer == qwen->fingerprint());
  CHECK(settle_data(data, 701).data.eod == -1);
  CHECK_THAT(error_of([&] { settle_data(data, 600); }), Contains("2: ") && Contains("has 701 tokens"));
  data.tokenizer = tokenizer_path("qwen");
  CHECK(settle_data(data, 701).data.eod == 0);
  data.tokenizer = tokenizer_path("tekken");
  CHECK_THAT(error_of([&] { settle_data(data, 1000); }), Contains("3: ") && Contains("do not mean the same"));
  data.tokenizer.clear();
  write_token_description(folder / "b", {"other", "other", "", 701, 0, 1, 6});
  CHECK_THAT(error_of([&] { settle_data(data, 701); }), Contains("b.json") && Contains("do not mean the same"));
  folder.write("b.json", "{}");
  CHECK_THAT(error_of([&] { settle_data(data, 701); }), Contains("b.json is not what tools/preprocess writes"));
}

}  // namespace trireme
