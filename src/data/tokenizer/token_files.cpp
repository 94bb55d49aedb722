#include "token_files.h"

#include "byte_characters.h"
#include "data/input_file.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

std::string file_text(const std::string& path) {
  const InputFile file(path, "tokenizer");
  if (file.size() > std::int64_t{1} << 30)
    throw Error(Exit::data, path + " has " + bytes_text(static_cast<double>(file.size())) +
                                "; a tokenizer file has at most some megabytes, so this is something else");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

nlohmann::json json_of(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::data, path + " is no valid JSON: " + error.what());
  }
}

std::string hash_text(const std::string& what, std::initializer_list<std::string_view> contents) {
  ContentHash hash;
  for (const std::string_view content : contents) {
    hash.add(content.size());
    hash.add(std::as_bytes(std::span(content)));
  }
  return what + format(", hash %016llx", static_cast<unsigned long long>(hash.value()));
}

void add_byte_level_vocabulary(const nlohmann::json& vocab, const std::string& where, PipelineParts& parts) {
  if (!vocab.is_object()) throw Error(Exit::data, where + ": the vocabulary is no object of tokens and ids");
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer())
      throw Error(Exit::data, where + ": the id of \"" + token + "\" is " + id.dump() + ", expected an integer");
    parts.vocabulary.add(bytes_of_characters(token).value_or(token), id.get<std::int64_t>(), where);
  }
}

void add_merge(const std::string& left, const std::string& right, std::int32_t rank, const std::string& where,
               PipelineParts& parts) {
  const auto a = parts.vocabulary.find(left), b = parts.vocabulary.find(right),
             both = parts.vocabulary.find(left + right);
  if (a && b && both) return parts.merges.insert(*a, *b, {rank, *both});
  const std::string missing = !a ? left : !b ? right : left + right;
  throw Error(Exit::data, where + ": merge " + std::to_string(rank) + " needs the token \"" + missing +
                              "\", which is not in the vocabulary");
}

std::optional<std::int32_t> usual_end(const std::vector<AddedToken>& added) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|end|>", "<|im_end|>"}) {
    for (const AddedToken& token : added) {
      if (token.text == name) return token.id;
    }
  }
  return {};
}

}  // namespace trireme
