// Samples as the model sees them: which tokens, where documents begin, what has no loss.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "commands.h"
#include "trireme/base/check.h"
#include "trireme/data/sampler.h"
#include "trireme/data/token_description.h"
#include "trireme/data/tokenizer.h"
#include "trireme/deck/read.h"

namespace trireme::inspect {

namespace {

// What is shown: the data of a deck as a run would read them, or files with settings of their own.
struct View {
  Deck deck;
  std::unique_ptr<Tokenizer> tokenizer;  // null: ids only
  TokenSplit split;
};

Deck deck_of(const std::string& path, const Options& options) {
  if (path.ends_with(".toml")) return parse_deck(read_deck_files(path), {}, 0);
  Deck deck;
  const std::string prefix = path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
  deck.data.source = std::filesystem::exists(prefix + ".bin") ? "tokens" : "text";
  deck.data.paths = {path};
  deck.data.validation_fraction = 0;
  deck.data.tokenizer = options.tokenizer;
  if (deck.data.source == "text" && options.tokenizer.empty()) deck.data.tokenizer = "byte";
  deck.model.sequence = options.sequence;
  deck.model.vocab = 1 << 24;  // any id of the files is shown
  if (deck.data.source != "tokens") return deck;
  if (const auto description = read_token_description(prefix))
    deck.data.eod = description->end_of_document.value_or(-1);
  return deck;
}

View open_view(const std::string& path, const Options& options) {
  View view{deck_of(path, options), nullptr, {}};
  Deck& deck = view.deck;
  deck.data = settle_data(deck.data, deck.model.vocab).data;
  const std::string name = options.tokenizer.empty() ? deck.data.tokenizer : options.tokenizer;
  if (!name.empty()) view.tokenizer = open_tokenizer(name, "--tokenizer");
  view.split = open_tokens(deck.data, deck.model.vocab, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  return view;
}

std::int64_t number_of(const std::string& word) {
  std::size_t end = 0;
  std::int64_t number = -1;
  try {
    number = std::stoll(word, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != word.size() || number < 0) throw Error(Exit::usage, "\"" + word + "\" is no sample number");
  return number;
}

using Ids = std::span<const std::int32_t>;

// On one line, whatever is in it.
std::string shown(const View& view, Ids ids) {
  if (!view.tokenizer) {
    std::string text;
    for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }
  std::string bytes;
  for (const std::int32_t id : ids) {
    const std::string_view piece = view.tokenizer->piece(id);
    bytes += piece.empty() ? "<" + std::to_string(id) + ">" : std::string(piece);
  }
  return nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct Sample {
  std::int64_t number;
  std::vector<std::int32_t> tokens, starts;
  std::vector<std::int64_t> without_loss;  // positions
  std::string corpus;
};

Sample read_sample(const View& view, const Sampler& sampler, std::int64_t number) {
  Sample sample{number, std::vector<std::int32_t>(static_cast<std::size_t>(view.deck.model.sequence) + 1), {}, {}, ""};
  sampler.read(number, sample.tokens);
  sample.starts = sampler.document_starts(number);
  sample.corpus = sampler.uses()[sampler.corpus_of(number)].name;
  for (std::int64_t i = 0; i < view.deck.model.sequence; ++i) {
    const bool masked = view.deck.data.mask_eod && sample.tokens[static_cast<std::size_t>(i)] == view.deck.data.eod;
    if (masked) sample.without_loss.push_back(i);
  }
  return sample;
}

void print_sample(const View& view, const Sample& sample) {
  const std::int64_t sequence = view.deck.model.sequence;
  std::printf("sample %lld%s%s: %lld positions, %zu documents, %zu targets without loss\n",
              static_cast<long long>(sample.number), sample.corpus.empty() ? "" : " of ", sample.corpus.c_str(),
              static_cast<long long>(sequence), sample.starts.size(), sample.without_loss.size());
  for (std::size_t i = 0; i < sample.starts.size(); ++i) {
    const std::int64_t first = sample.starts[i];
    const std::int64_t last = i + 1 < sample.starts.size() ? sample.starts[i + 1] : sequence;
    const Ids ids = Ids(sample.tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    std::printf("  [%lld, %lld) %s\n", static_cast<long long>(first), static_cast<long long>(last),
                shown(view, ids).c_str());
  }
  for (const std::int64_t i : sample.without_loss)
    std::printf("  no loss at %lld, where %s would predict %s\n", static_cast<long long>(i),
                shown(view, Ids(sample.tokens).subspan(static_cast<std::size_t>(i), 1)).c_str(),
                shown(view, Ids(sample.tokens).subspan(static_cast<std::size_t>(i) + 1, 1)).c_str());
  std::printf("  then     %s\n", shown(view, Ids(sample.tokens).last(1)).c_str());
}

void print_json(const View& view, const Sample& sample) {
  const Ids inputs = Ids(sample.tokens).first(sample.tokens.size() - 1);
  nlohmann::ordered_json json{{"sample", sample.number},
                              {"corpus", sample.corpus},
                              {"tokens", sample.tokens},
                              {"document_starts", sample.starts},
                              {"without_loss", sample.without_loss}};
  if (view.tokenizer) json["text"] = view.tokenizer->decode(inputs);
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int data(const Words& words, const Options& options) {
  const View view = open_view(words[0], options);
  const Deck& deck = view.deck;
  const Sampler sampler(*view.split.training, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  if (!options.json) {
    std::printf("data       %s\n", view.split.training->describe().c_str());
    std::printf("tokenizer  %s\n",
                view.tokenizer ? view.tokenizer->describe().c_str() : "none: ids; --tokenizer shows text");
    std::printf("samples    %lld an epoch; documents %s, positions %s\n",
                static_cast<long long>(sampler.samples_per_epoch()),
                deck.data.mask_documents ? "are separate in attention" : "see each other in attention",
                deck.data.reset_positions ? "begin anew with each" : "run through");
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) numbers.push_back(number_of(words[i]));
  if (numbers.empty()) {
    numbers.resize(static_cast<std::size_t>(std::min<std::int64_t>(3, sampler.samples_per_epoch())));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  for (const std::int64_t number : numbers) {
    const Sample sample = read_sample(view, sampler, number);
    options.json ? print_json(view, sample) : print_sample(view, sample);
  }
  return 0;
}

}  // namespace trireme::inspect
