// What the deck leaves to the tokenizer.
#include "trireme/base/check.h"
#include "trireme/data/token_description.h"
#include "trireme/data/token_source.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

namespace {

std::string prefix_of(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

void refuse_vocab(const std::string& who, std::int64_t tokens, std::int64_t vocab) {
  if (tokens <= vocab) return;
  throw Error(Exit::usage, "model.vocab = " + std::to_string(vocab) + ", but " + who + " has " +
                               std::to_string(tokens) + " tokens; set model.vocab = " + std::to_string(tokens));
}

// The fingerprint that all files agree on; files without a description agree with anything.
std::string fingerprint_of_files(const DataDeck& data, std::int64_t vocab, std::string fingerprint) {
  std::string by = "data.tokenizer";
  for (const auto& paths : {data.paths, data.validation_paths, data.test_paths}) {
    for (const std::string& path : paths) {
      const auto found = read_token_description(prefix_of(path));
      if (!found) continue;
      refuse_vocab("the tokenizer that wrote " + path + " (" + found->tokenizer + ")", found->vocab, vocab);
      if (!fingerprint.empty() && found->tokenizer_fingerprint != fingerprint)
        throw Error(Exit::data, prefix_of(path) + ".json: the tokens were made by " + found->tokenizer + " (" +
                                    found->tokenizer_fingerprint + "), but those of " + by + " by another tokenizer (" +
                                    fingerprint + "); their ids do not mean the same");
      fingerprint = found->tokenizer_fingerprint;
      by = path;
    }
  }
  return fingerprint;
}

}  // namespace

SettledData settle_data(const DataDeck& data, std::int64_t vocab) {
  SettledData settled{data, ""};
  if (!data.tokenizer.empty()) {
    const auto tokenizer = open_tokenizer(data.tokenizer, "data.tokenizer");
    refuse_vocab("data.tokenizer (" + tokenizer->describe() + ")", tokenizer->vocab_size(), vocab);
    if (data.eod < 0) settled.data.eod = tokenizer->end_of_document().value_or(-1);
    settled.tokenizer = tokenizer->fingerprint();
    if (settled.data.eod < 0 && (data.mask_eod || data.source == "text"))
      throw Error(Exit::usage, "data.tokenizer (" + tokenizer->describe() +
                                   ") names no end of a document; state its id as data.eod");
  }
  if (data.source == "tokens") settled.tokenizer = fingerprint_of_files(data, vocab, settled.tokenizer);
  return settled;
}

}  // namespace trireme
