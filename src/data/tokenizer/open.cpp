#include <filesystem>

#include "byte_tokenizer.h"
#include "sentence_piece.h"
#include "token_files.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// The token that tokenizer_config.json calls eos_token or bos_token: a string, or an object with "content".
std::optional<std::string> named_token(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    return (*found)["content"].get<std::string>();
  return {};
}

std::optional<std::int32_t> id_of(const PipelineParts& parts, const std::string& token) {
  for (const auto* added : {&parts.added, &parts.added_normalized}) {
    for (const AddedToken& one : *added) {
      if (one.text == token) return one.id;
    }
  }
  return parts.vocabulary.find(token);
}

// What the folder of a Hugging Face model says about the end of a document goes before a guess from spellings.
void read_config_beside(const std::string& path, PipelineParts& parts) {
  const fs::path config_path = fs::path(path).parent_path() / "tokenizer_config.json";
  if (!fs::exists(config_path)) return;
  const nlohmann::json config = json_of(file_text(config_path.string()), config_path.string());
  if (!config.is_object()) throw Error(Exit::data, config_path.string() + " is no JSON object");
  const auto end = named_token(config, "eos_token");
  if (!end) return;
  parts.end_of_document = id_of(parts, *end);
  if (!parts.end_of_document)
    throw Error(Exit::data,
                config_path.string() + ": eos_token is \"" + *end + "\", which the tokenizer does not have");
}

std::unique_ptr<Tokenizer> pipeline(PipelineParts parts, const std::string& path) {
  read_config_beside(path, parts);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

// One of the pairs of files, or null.
std::unique_ptr<Tokenizer> open_gpt2(const fs::path& folder) {
  for (const auto& [vocabulary, merges] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    if (fs::exists(folder / vocabulary) && fs::exists(folder / merges))
      return pipeline(read_gpt2_files(folder / vocabulary, folder / merges), folder / vocabulary);
  }
  return nullptr;
}

std::unique_ptr<Tokenizer> open_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (name == "vocab.json" || name == "encoder.json" || name == "merges.txt" || name == "vocab.bpe") {
    if (auto made = open_gpt2(fs::path(path).parent_path())) return made;
    throw Error(Exit::data,
                path + " needs its other half beside it: vocab.json with merges.txt, or encoder.json with vocab.bpe");
  }
  if (name.ends_with(".json")) return pipeline(read_tokenizer_json(path), path);
  if (looks_like_tiktoken(path)) return pipeline(read_tiktoken(path), path);
  return open_sentence_piece(path);
}

std::unique_ptr<Tokenizer> open_folder(const std::string& folder, const std::string& key) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    if (fs::exists(fs::path(folder) / name)) return open_file(fs::path(folder) / name);
    if (std::string_view(name) != "tokenizer.json") continue;
    if (auto made = open_gpt2(folder)) return made;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") return pipeline(read_tiktoken(entry.path()), entry.path());
  }
  throw Error(Exit::data,
              key + " = \"" + folder +
                  "\" is a folder without a tokenizer; expected tokenizer.json, vocab.json with merges.txt, "
                  "encoder.json with vocab.bpe, tokenizer.model, or *.tiktoken");
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const std::string& key) {
  if (path == "byte") return std::make_unique<ByteTokenizer>();
  if (!fs::exists(path))
    throw Error(Exit::data, key + " = \"" + path + "\" does not exist; name \"byte\", a tokenizer file or its folder");
  return fs::is_directory(path) ? open_folder(path, key) : open_file(path);
}

}  // namespace trireme
