#include "trireme/data/token_source.h"

#include <algorithm>

#include "file_source.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/philox.h"
#include "trireme/base/shape.h"

namespace trireme {

namespace {

// Random tokens, a pure function of (seed, index): as many as any run can eat, and no memory.
class MockSource final : public TokenSource {
 public:
  MockSource(std::int64_t vocab, std::int64_t eod, std::uint64_t seed)
      : vocab_(vocab), eod_(eod), key_{seed, stream_of("mock"), 0} {}
  std::int64_t n_tokens() const override { return std::int64_t{1} << 40; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
            "read of tokens outside the source");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(token(first + static_cast<std::int64_t>(i)));
    }
  }
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> starts;
    for (std::int64_t i = first; i < first + count; ++i)
      if (i == 0 || token(i - 1) == eod_) starts.push_back(i);
    return starts;
  }
  std::string describe() const override { return "random tokens below " + std::to_string(vocab_); }
  std::string fingerprint() const override {
    return format("mock, vocab %lld, seed %llu", static_cast<long long>(vocab_),
                  static_cast<unsigned long long>(key_.seed));
  }

 private:
  std::int64_t token(std::int64_t i) const { return random_word(key_, static_cast<std::uint64_t>(i)) % vocab_; }

  std::int64_t vocab_, eod_;  // eod -1: none
  RandomKey key_;
};

// The tokens [part.first, part.last) of another source. Training and validation each own their source: two open files
// cost less than shared ownership.
class PartSource final : public TokenSource {
 public:
  PartSource(std::unique_ptr<TokenSource> whole, Range part) : whole_(std::move(whole)), part_(part) {}
  std::int64_t n_tokens() const override { return part_.count(); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
            "read of tokens outside the source");
    whole_->read(part_.first + first, tokens);
  }
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> starts = whole_->document_starts(part_.first + first, count);
    for (std::int64_t& start : starts) start -= part_.first;
    return starts;
  }
  std::string describe() const override { return whole_->describe() + ", of these " + range(); }
  std::string fingerprint() const override { return whole_->fingerprint() + ", " + range(); }

 private:
  std::string range() const {
    return format("[%lld, %lld)", static_cast<long long>(part_.first), static_cast<long long>(part_.last));
  }
  std::unique_ptr<TokenSource> whole_;
  Range part_;
};

std::unique_ptr<TokenSource> open_source(const DataDeck& data, const std::vector<std::string>& paths,
                                         const std::string& key, std::int64_t vocab, std::uint64_t seed) {
  if (data.source == "mock") return std::make_unique<MockSource>(vocab, data.eod, seed);
  if (paths.empty()) {
    throw Error(Exit::usage,
                key + " is empty: name the files to read, or set data.source = \"mock\" for random tokens");
  }
  if (data.source == "tokens") return open_token_files(paths, key, data.dtype, data.eod, vocab);
  require(data.source == "text", "data.source is one of text, tokens, mock");
  const std::int64_t eod = data.eod >= 0 ? data.eod : k_byte_eod;
  if (eod >= vocab) {
    throw Error(Exit::usage, "data.source = \"text\" ends every file with token " + std::to_string(eod) +
                                 ", but model.vocab = " + std::to_string(vocab) +
                                 "; set model.vocab = " + std::to_string(std::max(eod + 1, k_byte_vocab)));
  }
  return open_text(paths, key, static_cast<std::int32_t>(eod), vocab);
}

// Whether the last n_held of n tokens become the validation set. Too few are an error where the fraction was chosen,
// and no validation where it is the default: small examples must run without a word about validation.
bool holds_out(const DataDeck& data, std::int64_t n, std::int64_t n_held, std::int64_t sequence) {
  if (data.validation_fraction == 0) return false;
  if (n_held > sequence && n - n_held > sequence) return true;
  if (data.validation_fraction == DataDeck{}.validation_fraction) return false;
  throw Error(
      Exit::data,
      format("data.validation_fraction = %g holds out %lld of %lld tokens, but training and validation each need "
             "at least model.sequence + 1 = %lld; give more data, another fraction, or 0 for no validation",
             data.validation_fraction, static_cast<long long>(n_held), static_cast<long long>(n),
             static_cast<long long>(sequence + 1)));
}

}  // namespace

TokenSplit open_tokens(const DataDeck& data, std::int64_t vocab, std::int64_t sequence, std::uint64_t seed) {
  TokenSplit split;
  split.training = open_source(data, data.paths, "data.paths", vocab, seed);
  if (!data.validation_paths.empty() && data.source != "mock") {
    split.validation = open_source(data, data.validation_paths, "data.validation_paths", vocab, seed);
    const std::int64_t n = split.validation->n_tokens();
    if (n > sequence) return split;
    throw Error(Exit::data, "data.validation_paths hold " + std::to_string(n) +
                                " tokens, but one sample needs model.sequence + 1 = " + std::to_string(sequence + 1));
  }
  const std::int64_t n = split.training->n_tokens();
  const auto n_held = static_cast<std::int64_t>(data.validation_fraction * static_cast<double>(n));
  if (!holds_out(data, n, n_held, sequence)) return split;
  auto again = open_source(data, data.paths, "data.paths", vocab, seed);
  split.validation = std::make_unique<PartSource>(std::move(again), Range{n - n_held, n});
  split.training = std::make_unique<PartSource>(std::move(split.training), Range{0, n - n_held});
  return split;
}

}  // namespace trireme
