// Tokenizer files that are damaged, incomplete, or use parts that are not known.

#include "catch.h"
#include "expected.h"
#include "round_trip.h"

namespace trireme {

using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::string base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string tiktoken_of(const Tokenizer& tokenizer, int n) {
  std::string text;
  for (int id = 0; id < n; ++id) text += base64(std::string(tokenizer.piece(id))) + " " + std::to_string(id) + "\n";
  return text;
}

class Changed {
 public:
  Changed() : original_(json::parse(read_text(data_path("tokenizers/qwen/tokenizer.json")))) {}
  template <class Change>
  std::string error(Change change) const {
    json copy = original_;
    change(copy);
    const std::string path = folder_.write("tokenizer.json", copy.dump());
    return error_of([&] { open_tokenizer(path, "data.tokenizer"); });
  }

 private:
  TemporaryFolder folder_;
  json original_;
};

}  // namespace

TEST_CASE("a tiktoken file gives the tokens of the files it was made from") {
  const auto gpt2 = open_known("gpt2");
  const TemporaryFolder folder;
  const auto tokenizer = open_tokenizer(folder.write("gpt2.tiktoken", tiktoken_of(*gpt2, 50256)), "test");
  const std::string text = read_text(data_path("tinyshakespeare.txt")).substr(0, 200000) + "<|endoftext|> x";

  CHECK(tokenizer->encode(text) == gpt2->encode(text));
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->end_of_document() == 50256);
  CHECK(open_tokenizer(folder.path(), "test")->fingerprint() == tokenizer->fingerprint());
}

TEST_CASE("a tiktoken file of unknown size says that the expression is missing") {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.tiktoken", "IQ== 0\nIg== 1\n");
  CHECK_THAT(error_of([&] { open_tokenizer(path, "t"); }),
             Contains("3: ") && Contains("holds 2 ranks") && Contains("100256"));
  folder.write("x.tiktoken", "IQ== 0\nI%== 1\n");
  CHECK_THAT(error_of([&] { open_tokenizer(path, "t"); }), Contains("x.tiktoken:2: expected a token in base64"));
}

TEST_CASE("the end of a document comes from tokenizer_config.json, else from a usual name") {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", read_text(data_path("tokenizers/qwen/tokenizer.json")));

  CHECK(open_tokenizer(folder.path(), "t")->end_of_document() == 0);
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  CHECK(open_tokenizer(folder.path(), "t")->end_of_document() == 2);
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_start|>"}})");
  CHECK(open_tokenizer(folder / "tokenizer.json", "t")->end_of_document() == 1);
  folder.write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  CHECK_THAT(error_of([&] { open_tokenizer(folder.path(), "t"); }), Contains("eos_token is \"<none>\""));
  CHECK(open_known("old_llama3")->begin_of_document() == 0);
  CHECK(open_known("sp_bpe")->begin_of_document() == 1);
}

TEST_CASE("paths that hold no tokenizer say what would") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of([&] { open_tokenizer(folder / "no", "data.tokenizer"); }),
             Contains("3: data.tokenizer = ") && Contains("does not exist"));
  CHECK_THAT(error_of([&] { open_tokenizer(folder.path(), "data.tokenizer"); }), Contains("expected tokenizer.json"));
  CHECK_THAT(error_of([&] { open_tokenizer(folder.write("vocab.json", "{}"), "t"); }), Contains("other half"));
  CHECK_THAT(error_of([&] { open_tokenizer(folder.write("x.model", "nothing"), "t"); }),
             Contains("no SentencePiece model"));
}

TEST_CASE("parts of a tokenizer.json that are not known are refused by name") {
  const Changed file;
  const json digits{{"type", "BertPreTokenizer"}};

  CHECK(file.error([](json&) {}) == "no error");
  CHECK_THAT(file.error([](json& j) { j["model"]["type"] = "WordPiece"; }),
             Contains("\"WordPiece\", which is not known"));
  CHECK_THAT(file.error([](json& j) { j["model"]["dropout"] = 0.1; }), Contains("model.dropout is 0.1"));
  CHECK_THAT(file.error([](json& j) { j["model"]["new"] = 1; }), Contains("the key \"new\" = 1"));
  CHECK_THAT(file.error([&](json& j) { j["pre_tokenizer"]["pretokenizers"][0] = digits; }),
             Contains("pretokenizers[0] is of type \"BertPreTokenizer\"") && Contains("known are"));
  CHECK_THAT(file.error([](json& j) { j["normalizer"] = {{"type", "Lowercase"}}; }), Contains("\"Lowercase\""));
  CHECK_THAT(file.error([](json& j) {
    j["decoder"] = {{"type", "WordPiece"}};
  }),
             Contains("decoder is of type \"WordPiece\""));
  CHECK_THAT(file.error([](json& j) { j["decoder"] = {{"type", "Fuse"}}; }), Contains("do not agree"));
  CHECK_THAT(file.error([](json& j) { j["added_tokens"][0]["single_word"] = true; }), Contains("single_word is true"));
  CHECK_THAT(file.error([](json& j) { j["truncation"] = {{"max_length", 5}}; }), Contains("truncation is set"));
  CHECK_THAT(file.error([](json& j) { j["model"]["merges"][3] = "a b c"; }), Contains("merges[3]"));
  CHECK_THAT(file.error([](json& j) { j["model"]["vocab"]["zz"] = 5; }), Contains("the id 5 belongs to"));
  CHECK_THAT(file.error([](json& j) { j["model"]["vocab"].erase("th"); }), Contains("needs the token"));
  CHECK_THAT(file.error([](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; }),
             Contains("uses \\w"));
  CHECK_THAT(file.error([](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }),
             Contains("is not understood"));
}

TEST_CASE("a byte without a token is an error and not a hole in the text") {
  const TemporaryFolder folder;
  json j = json::parse(read_text(data_path("tokenizers/qwen/tokenizer.json")));
  const int id = j["model"]["vocab"]["~"];
  j["model"]["vocab"].erase("~");
  j["model"]["vocab"]["\u00e9\u00e9\u00e9"] = id;
  const auto tokenizer = open_tokenizer(folder.write("tokenizer.json", j.dump()), "t");

  CHECK(tokenizer->encode("a").size() == 1);
  CHECK_THAT(error_of([&] { tokenizer->encode("a~b"); }), Contains("no token for the byte 0x7E"));
}

TEST_CASE("damaged tokenizer files are errors and never crashes") {
  const TemporaryFolder folder;
  RandomText random(11);
  for (const char* name : {"qwen/tokenizer.json", "llama2/tokenizer.json", "sp_bpe/tokenizer.model"}) {
    const std::string good = read_text(data_path(std::string("tokenizers/") + name));
    int refused = 0;
    for (int i = 0; i < 150; ++i) {
      std::string bad = good;
      for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
        const std::size_t at = random.below(i % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 1500));
        if (random.below(3) == 0)
          bad.erase(at, random.below(9));
        else
          bad[at] = static_cast<char>(random.below(256));
      }
      const std::string path = folder.write(std::string(name).ends_with("json") ? "tokenizer.json" : "m.model", bad);
      const std::string error = error_of([&] {
        const auto tokenizer = open_tokenizer(path, "t");
        tokenizer->decode(tokenizer->encode("Some text, 12 \u00e9\u4f60 \u2581x"));
      });
      refused += error == "no error" ? 0 : 1;
    }
    CHECK(refused > 20);
  }
}

}  // namespace trireme
