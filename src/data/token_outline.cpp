#include "trireme/data/token_outline.h"

#include <nlohmann/json.hpp>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

using Json = nlohmann::json;

class AbsentSource final : public TokenSource {
 public:
  AbsentSource(std::vector<Corpus> corpora, std::string fingerprint)
      : corpora_(std::move(corpora)), fingerprint_(std::move(fingerprint)) {}
  std::int64_t n_tokens() const override { return corpora_.back().tokens.last; }
  void read(std::int64_t /*first*/, std::span<std::int32_t> /*tokens*/) const override {
    require(false, "tokens are read on a rank that has none");
  }
  std::vector<std::int64_t> document_starts(std::int64_t /*first*/, std::int64_t /*count*/) const override {
    require(false, "documents are asked for on a rank that has no tokens");
    return {};
  }
  std::vector<Corpus> corpora() const override { return corpora_; }
  std::string describe() const override {
    return count_text(static_cast<double>(n_tokens())) + " tokens that other ranks read";
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::vector<Corpus> corpora_;
  std::string fingerprint_;
};

Json outline_of(const TokenSource* source) {
  if (source == nullptr) return nullptr;
  Json corpora = Json::array();
  for (const Corpus& corpus : source->corpora())
    corpora.push_back({corpus.name, corpus.tokens.first, corpus.tokens.last, corpus.weight});
  return {{"corpora", corpora}, {"fingerprint", source->fingerprint()}};
}

std::unique_ptr<TokenSource> source_from(const Json& outline) {
  if (outline.is_null()) return nullptr;
  std::vector<Corpus> corpora;
  for (const Json& row : outline["corpora"])
    corpora.push_back(
        {row[0].get<std::string>(), {row[1].get<std::int64_t>(), row[2].get<std::int64_t>()}, row[3].get<double>()});
  return std::make_unique<AbsentSource>(std::move(corpora), outline["fingerprint"].get<std::string>());
}

}  // namespace

std::string outline_of(const TokenSplit& split) {
  const Json outline{outline_of(split.training.get()), outline_of(split.validation.get()),
                     outline_of(split.test.get())};
  return outline.dump(-1, ' ', false, Json::error_handler_t::replace);  // names of files may be any bytes
}

TokenSplit split_from(const std::string& outline) {
  const Json parts = Json::parse(outline);
  return {source_from(parts[0]), source_from(parts[1]), source_from(parts[2])};
}

}  // namespace trireme
