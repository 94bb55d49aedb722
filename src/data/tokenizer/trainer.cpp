#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "byte_characters.h"
#include "steps.h"
#include "token_files.h"
#include "trireme/base/check.h"
#include "trireme/data/tokenizer_trainer.h"
#include "utf8.h"

namespace trireme {

namespace {

using Json = nlohmann::ordered_json;
using Pair = std::uint64_t;  // left id << 32 | right id

Pair pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count;
};

struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// Counts of neighbours, and the words in which they stand; changed in place as pairs become tokens.
class Merging {
 public:
  explicit Merging(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) change(w, 1);
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }
  // The most frequent pair, or none of at least `least`.
  std::optional<Pair> next(std::int64_t least) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t now = counts_[best.pair];
      if (now == best.count) return now >= least ? std::optional(best.pair) : std::nullopt;
      if (now > 0) queue_.push({now, best.pair});  // it was out of date
    }
    return {};
  }
  void replace(Pair pair, std::int32_t made) {
    const std::unordered_set<std::size_t> places = std::move(places_[pair]);
    changed_.clear();
    for (const std::size_t w : places) {
      change(w, -1);
      merge_in(words_[w].ids, pair, made);
      change(w, 1);
    }
    for (const Pair one : changed_) {
      const std::int64_t count = counts_[one];
      if (count > 0) queue_.push({count, one});
    }
    counts_.erase(pair);
    places_.erase(pair);
  }

 private:
  void change(std::size_t w, std::int64_t sign) {
    const Word& word = words_[w];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      const Pair pair = pair_of(word.ids[i], word.ids[i + 1]);
      counts_[pair] += sign * word.count;
      if (sign < 0) continue;
      places_[pair].insert(w);
      changed_.insert(pair);
    }
  }
  static void merge_in(std::vector<std::int32_t>& ids, Pair pair, std::int32_t made) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool here = i + 1 < ids.size() && pair_of(ids[i], ids[i + 1]) == pair;
      ids[n++] = here ? made : ids[i];
      i += here ? 1 : 0;
    }
    ids.resize(n);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t> counts_;
  std::unordered_map<Pair, std::unordered_set<std::size_t>> places_;
  std::unordered_set<Pair> changed_;
  std::priority_queue<Candidate> queue_;
};

// Pre-tokenizer of the file; its expression also cuts the words here.
struct Style {
  const char* pattern;
  Json pre_tokenizer;
};

Style style_of(const std::string& name) {
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  if (name == "gpt2") return {k_gpt2_pattern, byte_level};
  if (name != "llama3") throw Error(Exit::usage, "the style \"" + name + "\" is not known; gpt2 and llama3 are");
  Json plain = byte_level;
  plain["use_regex"] = false;
  Json split{
      {"type", "Split"}, {"pattern", {{"Regex", k_llama3_pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {k_llama3_pattern, Json{{"type", "Sequence"}, {"pretokenizers", Json::array({split, plain})}}};
}

Json added_token(const std::string& text, std::int64_t id) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

struct TokenizerTrainer::Words {
  Style style;
  SplitCutter cutter;
  MatchSpace space;
  std::unordered_map<std::string, std::int64_t> counts;
  std::string repaired;
};

TokenizerTrainer::TokenizerTrainer(const std::string& style) {
  Style made = style_of(style);
  SplitCutter cutter{Pattern(made.pattern, style), Cut::isolated, false};
  words_ = std::make_unique<Words>(Words{std::move(made), std::move(cutter), {}, {}, {}});
}
TokenizerTrainer::~TokenizerTrainer() = default;
TokenizerTrainer::TokenizerTrainer(TokenizerTrainer&&) noexcept = default;

void TokenizerTrainer::add(std::string_view text) {
  split(words_->cutter, Piece{well_formed(text, words_->repaired), true}, words_->space,
        [&](Piece word) { ++words_->counts[std::string(word.text)]; });
}

void TokenizerTrainer::add(const TokenizerTrainer& other) {
  for (const auto& [word, count] : other.words_->counts) words_->counts[word] += count;
}

std::int64_t TokenizerTrainer::n_words() const {
  return static_cast<std::int64_t>(words_->counts.size());
}

namespace {

struct Learned {
  std::vector<std::string> tokens;  // in the characters of the file
  std::unordered_map<std::string, std::int32_t> ids;
  std::vector<std::string> merges;

  std::int32_t id_of(const std::string& token) {
    const auto [place, fresh] = ids.emplace(token, static_cast<std::int32_t>(tokens.size()));
    if (fresh) tokens.push_back(token);
    return place->second;
  }
};

// Special tokens, then bytes in the order of their characters, as Hugging Face has them.
std::vector<std::int32_t> add_alphabet(const std::vector<std::string>& special, Learned& learned) {
  for (const std::string& token : special) learned.id_of(token);
  std::map<std::uint32_t, std::size_t> order;
  for (std::size_t byte = 0; byte < 256; ++byte) order[code_point(byte_characters()[byte])] = byte;
  std::vector<std::int32_t> id_of_byte(256);
  for (const auto& [code, byte] : order) id_of_byte[byte] = learned.id_of(byte_characters()[byte]);
  return id_of_byte;
}

std::vector<Word> words_of(const std::unordered_map<std::string, std::int64_t>& counts,
                           const std::vector<std::int32_t>& id_of_byte) {
  std::vector<Word> words;
  for (const auto& [text, count] : counts) {
    words.push_back({{}, count});
    for (const char c : text) words.back().ids.push_back(id_of_byte[static_cast<unsigned char>(c)]);
  }
  return words;
}

Json model_of(Learned learned) {
  Json::object_t vocab;  // a vector: tokens are known to differ, and a look-up for each would take their square
  for (std::size_t id = 0; id < learned.tokens.size(); ++id) vocab.emplace_back(learned.tokens[id], id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(learned.merges)}};
}

std::string json_text(Learned learned, const Json& pre_tokenizer, std::size_t n_special) {
  Json added = Json::array();
  for (std::size_t id = 0; id < n_special; ++id)
    added.push_back(added_token(learned.tokens[id], static_cast<std::int64_t>(id)));
  const Json decoder{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const Json root{{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                  {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", pre_tokenizer},
                  {"post_processor", nullptr}, {"decoder", decoder},    {"model", model_of(std::move(learned))}};
  return root.dump(1) + "\n";
}

}  // namespace

std::string TokenizerTrainer::train(const Wanted& wanted, const std::function<void(std::int64_t)>& progress) const {
  const std::size_t n_special = wanted.special.size();
  if (wanted.vocab < static_cast<std::int64_t>(256 + n_special))
    throw Error(Exit::usage, "a vocabulary of " + std::to_string(wanted.vocab) + " has no room for 256 bytes and " +
                                 std::to_string(n_special) + " special tokens");
  Learned learned;
  const std::vector<std::int32_t> id_of_byte = add_alphabet(wanted.special, learned);
  if (learned.tokens.size() != 256 + n_special)
    throw Error(Exit::usage, "a special token is given twice, or is a single character");
  Merging merging(words_of(words_->counts, id_of_byte));
  while (static_cast<std::int64_t>(learned.tokens.size()) < wanted.vocab) {
    const auto pair = merging.next(std::max<std::int64_t>(wanted.min_frequency, 1));
    if (!pair) break;
    const std::string left = learned.tokens[*pair >> 32], right = learned.tokens[*pair & 0xFFFFFFFF];
    learned.merges.push_back(left + " " + right);
    merging.replace(*pair, learned.id_of(left + right));
    if (learned.merges.size() % 64 == 0) progress(static_cast<std::int64_t>(learned.tokens.size()));
  }
  return json_text(std::move(learned), words_->style.pre_tokenizer, n_special);
}

}  // namespace trireme
