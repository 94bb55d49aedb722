#include "trireme/data/token_source.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "file_source.h"
#include "memory_source.h"
#include "mock_source.h"
#include "part_source.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/data/token_description.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

std::vector<Corpus> TokenSource::corpora() const {
  return {{"", {0, n_tokens()}, 1}};
}

namespace {

constexpr std::int64_t k_widest_search = std::int64_t{1} << 24;  // tokens; for a document near a cut

struct Opening {
  const DataDeck& data;
  std::int64_t vocab, sequence;
  std::uint64_t seed;
};

std::unique_ptr<TokenSource> open_source(const Opening& to, const std::vector<std::string>& paths,
                                         const std::string& key) {
  const DataDeck& data = to.data;
  if (data.source == "mock") return make_mock_source(to.vocab, data.eod, to.seed);
  if (paths.empty()) {
    throw Error(Exit::usage,
                key + " is empty: name the files to read, or set data.source = \"mock\" for random tokens");
  }
  if (data.source == "tokens") return open_token_files(paths, key, data.dtype, data.eod, to.vocab);
  require(data.source == "text", "data.source is one of text, tokens, mock");
  if (!data.tokenizer.empty() && data.tokenizer != "byte") {
    return tokenize_text(paths, key, *open_tokenizer(data.tokenizer, "data.tokenizer"), data.eod);
  }
  const std::int64_t eod = data.eod >= 0 ? data.eod : k_byte_eod;
  if (eod >= to.vocab) {
    throw Error(Exit::usage, "data.source = \"text\" ends every file with token " + std::to_string(eod) +
                                 ", but model.vocab = " + std::to_string(to.vocab) +
                                 "; set model.vocab = " + std::to_string(std::max(eod + 1, k_byte_vocab)));
  }
  return open_text(paths, key, static_cast<std::int32_t>(eod), to.vocab);
}

// The beginning of a document nearest to token `target`, inside (0, n); target itself where none is found near.
std::int64_t near_document(const TokenSource& source, std::int64_t target) {
  const std::int64_t n = source.n_tokens();
  for (std::int64_t reach = 1 << 9;; reach *= 8) {
    const std::int64_t first = std::max<std::int64_t>(target - reach, 1), last = std::min(target + reach, n);
    std::int64_t best = -1;
    for (const std::int64_t start : source.document_starts(first, last - first)) {
      if (best < 0 || std::abs(start - target) < std::abs(best - target)) best = start;
    }
    if (best >= 0) return best;
    if ((first == 1 && last == n) || reach >= k_widest_search) return target;
  }
}

struct Cuts {
  Range training, validation, test;
};

// Too few tokens are an error where the fraction was chosen, and no validation where it is the default: small examples
// must run without a word about validation.
Cuts cuts_of(const Opening& to, const TokenSource& source, const std::string& what) {
  const DataDeck& data = to.data;
  const std::int64_t n = source.n_tokens();
  const auto held = [&](double fraction) { return static_cast<std::int64_t>(fraction * static_cast<double>(n)); };
  const bool mock = data.source == "mock";
  const std::int64_t n_test = data.test_paths.empty() || mock ? held(data.test_fraction) : 0;
  const std::int64_t n_validation = data.validation_paths.empty() || mock ? held(data.validation_fraction) : 0;
  const auto cut = [&](std::int64_t target) { return mock || target == n ? target : near_document(source, target); };
  const std::int64_t b = cut(n - n_test), a = std::min(b, cut(n - n_test - n_validation));
  Cuts cuts{{0, a}, {a, b}, {b, n}};
  const auto enough = [&](Range part, std::int64_t wanted) { return wanted == 0 || part.count() > to.sequence; };
  const bool fits = enough(cuts.validation, n_validation) && enough(cuts.test, n_test);
  if (fits && (cuts.training.count() > to.sequence || n_validation + n_test == 0)) return cuts;
  const bool by_default = data.validation_fraction == DataDeck{}.validation_fraction && data.test_fraction == 0;
  if (by_default) return {{0, n}, {n, n}, {n, n}};
  throw Error(
      Exit::data,
      format("data.validation_fraction = %g and data.test_fraction = %g leave %lld, %lld and %lld of %lld tokens of ",
             data.validation_fraction, data.test_fraction, static_cast<long long>(cuts.training.count()),
             static_cast<long long>(cuts.validation.count()), static_cast<long long>(cuts.test.count()),
             static_cast<long long>(n)) +
          what +
          format(" for training, validation and test, but each needs at least model.sequence + 1 = %lld; give "
                 "more data, other fractions, or 0 for no such part",
                 static_cast<long long>(to.sequence + 1)));
}

using Open = std::function<std::unique_ptr<TokenSource>()>;

std::unique_ptr<TokenSource> part_of(const TokenSource& whole, Range part, const Open& open) {
  if (part.count() == 0) return nullptr;
  if (const auto* memory = dynamic_cast<const MemorySource*>(&whole)) return memory->part(part);
  return std::make_unique<PartSource>(open(), part);
}

// Training, validation and test of one corpus.
TokenSplit split_corpus(const Opening& to, const std::vector<std::string>& paths, const std::string& what) {
  const Open open = [&] { return open_source(to, paths, "data.paths"); };
  TokenSplit split;
  split.training = open();
  const Cuts cuts = cuts_of(to, *split.training, what);
  split.validation = part_of(*split.training, cuts.validation, open);
  split.test = part_of(*split.training, cuts.test, open);
  if (cuts.training.count() == split.training->n_tokens()) return split;
  auto whole = std::move(split.training);  // training keeps the files that are open
  const Open keep = [&] { return std::move(whole); };
  const TokenSource& all = *whole;
  split.training = part_of(all, cuts.training, keep);
  return split;
}

TokenSplit split_blend(const Opening& to) {
  const DataDeck& data = to.data;
  std::vector<BlendSource::Part> training, validation, test;
  for (std::size_t i = 0; i < data.paths.size(); ++i) {
    const std::string& path = data.paths[i];
    TokenSplit one = split_corpus(to, {path}, path);
    const auto add = [&](std::unique_ptr<TokenSource>& source, std::vector<BlendSource::Part>& parts) {
      if (source) parts.push_back({std::move(source), path, data.weights[i]});
    };
    add(one.training, training);
    add(one.validation, validation);
    add(one.test, test);
  }
  const auto blend = [](std::vector<BlendSource::Part>& parts) -> std::unique_ptr<TokenSource> {
    if (parts.empty()) return nullptr;
    return std::make_unique<BlendSource>(std::move(parts));
  };
  return {blend(training), blend(validation), blend(test)};
}

void open_held_out(const Opening& to, const std::vector<std::string>& paths, const std::string& key,
                   std::unique_ptr<TokenSource>& source) {
  if (paths.empty() || to.data.source == "mock") return;
  source = open_source(to, paths, key);
  if (source->n_tokens() > to.sequence) return;
  throw Error(Exit::data, key + " hold " + std::to_string(source->n_tokens()) +
                              " tokens, but one sample needs model.sequence + 1 = " + std::to_string(to.sequence + 1));
}

}  // namespace

TokenSplit open_tokens(const DataDeck& data, std::int64_t vocab, std::int64_t sequence, std::uint64_t seed) {
  const Opening to{data, vocab, sequence, seed};
  require(data.weights.empty() || data.weights.size() == data.paths.size(), "a weight for each of data.paths");
  TokenSplit split = data.weights.empty() ? split_corpus(to, data.paths, "data.paths") : split_blend(to);
  open_held_out(to, data.validation_paths, "data.validation_paths", split.validation);
  open_held_out(to, data.test_paths, "data.test_paths", split.test);
  return split;
}

}  // namespace trireme
