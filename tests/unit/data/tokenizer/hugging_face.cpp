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

TEST_CASE("text that spells a special token stays text where that is asked for") {
  for (const char* name : {"gpt2", "llama3_style", "qwen"}) {
    const auto tokenizer = open_known(name);
    const std::string special(tokenizer->piece(*tokenizer->end_of_document()));
    const std::string text = "a" + special + "\n" + special + "b";
    Ids as_text, without;

    tokenizer->append(text, Spelled::text, as_text);
    tokenizer->append("a quite ordinary text", Spelled::text, without);

    INFO(name << " " << special);
    const auto count = [&](const Ids& ids) {
      return std::count(ids.begin(), ids.end(), *tokenizer->end_of_document());
    };
    CHECK(count(tokenizer->encode(text)) == 2);
    CHECK(count(as_text) == 0);
    CHECK(tokenizer->decode(as_text) == text);
    CHECK(without == tokenizer->encode("a quite ordinary text"));
  }
}

TEST_CASE("an added token that is not special is found whatever special tokens become") {
  const auto tokenizer = open_known("qwen");
  const auto id = tokenizer->id_of("<tool_call>");
  REQUIRE(id.has_value());
  Ids ids;

  tokenizer->append("x<tool_call>", Spelled::text, ids);

  CHECK(ids.back() == *id);
}

}  // namespace trireme
