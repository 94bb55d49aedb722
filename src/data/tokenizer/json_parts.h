#pragma once
// The parts of a Hugging Face tokenizer.json, each from its JSON object. Whatever is not known is an Error that names
// the file, the place in it and what was found.

#include <nlohmann/json.hpp>
#include <string>

#include "pipeline.h"

namespace trireme {

// A JSON value and where it stands, for messages.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}
  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }

  JsonPlace at(const char* key) const;      // which must be there
  bool has(const char* key) const;          // there and not null
  std::vector<JsonPlace> items() const;     // of an array
  std::string text(const char* key) const;  // which must be there
  bool flag(const char* key, bool otherwise) const;
  std::string type() const { return text("type"); }
  // Throws for a key that is not among `known`.
  void only(std::initializer_list<std::string_view> known) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

void read_normalizer(const JsonPlace& place, std::vector<Normalizer>& normalizers);

struct PreTokenizer {
  std::vector<Cutter> cutters;
  bool byte_level = false;  // words are bytes and not characters
};
void read_pre_tokenizer(const JsonPlace& place, PreTokenizer& made);

// How tokens become text again.
struct Decoding {
  bool byte_level = false, byte_fallback = false, metaspace = false, drops_first_space = false;
  std::vector<std::pair<std::string, std::string>> replaced;
};
void read_decoder(const JsonPlace& place, Decoding& made);

// The token that a template puts before a text, if any.
std::optional<std::int32_t> read_post_processor(const JsonPlace& place);

}  // namespace trireme
