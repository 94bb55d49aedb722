#pragma once
// PREFIX.json beside a pair of token files: which tokenizer made them. Files from elsewhere have none; it is never
// needed to read tokens.

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

struct TokenDescription {
  std::string tokenizer, tokenizer_fingerprint;
  std::string tokenizer_path;  // where it was, or "byte"; may be gone or empty
  std::int64_t vocab = 0;
  std::optional<std::int32_t> end_of_document;
  std::int64_t documents = 0, tokens = 0;
};

// None where there is no such file; throws Error(Exit::data) for one that is damaged.
std::optional<TokenDescription> read_token_description(const std::string& prefix);
void write_token_description(const std::string& prefix, const TokenDescription& description);

}  // namespace trireme
