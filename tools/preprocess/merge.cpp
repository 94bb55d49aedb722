#include <filesystem>

#include "commands.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/data/token_description.h"
#include "trireme/data/token_writer.h"

using namespace trireme;

namespace {

std::string prefix_of(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

// That of all parts: none where one part has none.
std::optional<TokenDescription> common_description(const std::vector<std::string>& prefixes) {
  const auto first = read_token_description(prefixes.front());
  for (const std::string& prefix : prefixes) {
    const auto here = read_token_description(prefix);
    if (!first || !here) {
      log().warn((first ? prefix : prefixes.front()) +
                 ".json is missing, so the result has none: it will not say which "
                 "tokenizer made it");
      return {};
    }
    if (here->tokenizer_fingerprint != first->tokenizer_fingerprint || here->end_of_document != first->end_of_document)
      throw Error(Exit::data, prefix + " was made by " + here->tokenizer + ", but " + prefixes.front() + " by " +
                                  first->tokenizer + " or with another end of documents; they do not belong together");
  }
  return first;
}

}  // namespace

void refuse_existing(const Options& options) {
  for (const char* end : {".bin", ".idx", ".json"}) {
    if (!options.overwrite && std::filesystem::exists(options.output + end))
      throw Error(Exit::usage, options.output + end + " exists; choose another --output, or --overwrite");
  }
}

void merge_files(const Options& options) {
  refuse_existing(options);
  std::vector<std::string> prefixes;
  for (const std::string& input : options.inputs) {
    prefixes.push_back(prefix_of(input));
    if (prefixes.back() == options.output) throw Error(Exit::usage, options.output + " cannot be merged into itself");
  }
  auto description = common_description(prefixes);
  TokenWriter writer(options.output, read_element(prefixes.front()));
  for (const std::string& prefix : prefixes) writer.add_files(prefix);
  writer.finish();
  if (description) {
    description->documents = writer.n_documents();
    description->tokens = writer.n_tokens();
    write_token_description(options.output, *description);
  } else {
    std::filesystem::remove(options.output + ".json");
  }
  log().info(format("merged %zu pairs: %lld documents, %lld tokens in %s.bin", prefixes.size(),
                    static_cast<long long>(writer.n_documents()), static_cast<long long>(writer.n_tokens()),
                    options.output.c_str()));
}
