// Exact agreement with other programs' tokens, for every kind of file.

#include "catch.h"
#include "expected.h"

namespace trireme {

namespace {

void agrees(const std::string& name) {
  const auto tokenizer = open_known(name);
  const nlohmann::json rows = nlohmann::json::parse(read_text(data_path("tokenizers/" + name + "/expected.json")));
  REQUIRE(rows.size() > 10);
  for (const nlohmann::json& row : rows) {
    const auto text = row["text"].get<std::string>();
    INFO(name << ": " << row["text"].dump());
    CHECK(tokenizer->encode(text) == row["ids"].get<Ids>());
    if (row.contains("decoded")) CHECK(tokenizer->decode(row["ids"].get<Ids>()) == row["decoded"].get<std::string>());
  }
}

std::uint64_t fnv1a(const Ids& ids) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::int32_t id : ids) hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211ULL;
  return hash;
}

}  // namespace

TEST_CASE("GPT-2's own files give GPT-2's tokens") {
  agrees("gpt2");
}

TEST_CASE("a tokenizer.json gives the tokens and the text of Hugging Face") {
  for (const char* name : {"llama3_style", "neox", "qwen", "tekken", "old_llama3", "roberta_like", "digits", "llama2",
                           "mistral", "metaspace", "gemma"}) {
    agrees(name);
  }
}

TEST_CASE("SentencePiece models give the tokens of the library") {
  agrees("sp_bpe");
  agrees("sp_unigram");
}

TEST_CASE("a megabyte of English gives the tokens of Hugging Face's and OpenAI's GPT-2") {
  const std::string text = read_text(data_path("tinyshakespeare.txt"));
  const auto tokenizer = open_known("gpt2");

  const Ids ids = tokenizer->encode(text);

  CHECK(ids.size() == 338025);
  CHECK(fnv1a(ids) == 0xb547ad363c19676eULL);
  CHECK(tokenizer->decode(ids) == text);
}

}  // namespace trireme
