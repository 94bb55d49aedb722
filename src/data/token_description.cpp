#include "trireme/data/token_description.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/check.h"

namespace trireme {

std::optional<TokenDescription> read_token_description(const std::string& prefix) {
  const std::string path = prefix + ".json";
  if (!std::filesystem::exists(path)) return {};
  try {
    std::ifstream file(path, std::ios::binary);
    const nlohmann::json json = nlohmann::json::parse(file);
    TokenDescription made;
    json.at("tokenizer").get_to(made.tokenizer);
    json.at("tokenizer_fingerprint").get_to(made.tokenizer_fingerprint);
    made.tokenizer_path = json.value("tokenizer_path", "");
    json.at("vocab").get_to(made.vocab);
    json.at("documents").get_to(made.documents);
    json.at("tokens").get_to(made.tokens);
    if (!json.at("end_of_document").is_null()) made.end_of_document = json.at("end_of_document").get<std::int32_t>();
    return made;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::data, path + " is not what tools/preprocess writes (" + error.what() +
                                "); remove it if it belongs to something else");
  }
}

void write_token_description(const std::string& prefix, const TokenDescription& description) {
  nlohmann::ordered_json json{{"tokenizer", description.tokenizer},
                              {"tokenizer_fingerprint", description.tokenizer_fingerprint},
                              {"tokenizer_path", description.tokenizer_path},
                              {"vocab", description.vocab},
                              {"end_of_document", nullptr},
                              {"documents", description.documents},
                              {"tokens", description.tokens}};
  if (description.end_of_document) json["end_of_document"] = *description.end_of_document;
  const std::string path = prefix + ".json";
  std::ofstream file(path, std::ios::binary);
  file << json.dump(2) << "\n";
  if (!file.flush()) throw Error(Exit::data, path + " cannot be written");
}

}  // namespace trireme
