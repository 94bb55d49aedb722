#include "trireme/infer/command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

namespace {

using Json = nlohmann::ordered_json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Tokenizer> tokenizer_of(const GenerateRequest& request, const Weights& weights) {
  const std::string& path = request.tokenizer.empty() ? weights.tokenizer : request.tokenizer;
  if (!path.empty()) {
    auto tokenizer = open_tokenizer(path, request.tokenizer.empty() ? weights.path : "--tokenizer");
    const std::string& trained = weights.tokenizer_fingerprint;
    if (trained.empty() || tokenizer->fingerprint() == trained) return tokenizer;
    throw Error(Exit::data, path + " (" + tokenizer->describe() + ", fingerprint " + tokenizer->fingerprint() +
                                ") is not the tokenizer that " + weights.path + " was trained with (fingerprint " +
                                trained + "): name that one with --tokenizer");
  }
  throw Error(Exit::usage, weights.path +
                               " does not say which tokenizer made its tokens: name it with --tokenizer "
                               "(a tokenizer.json, a folder that holds one, or byte)");
}

std::vector<std::string> read_prompts(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(Exit::data, "--prompts " + path + " cannot be opened");
  std::vector<std::string> prompts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string())
      throw Error(Exit::data, path + ":" + std::to_string(number) + ": expected {\"prompt\": \"...\"}");
    prompts.push_back(json["prompt"].get<std::string>());
  }
  if (prompts.empty()) throw Error(Exit::data, path + " holds no prompt");
  return prompts;
}

std::vector<std::int32_t> ids_of(const std::string& text, Spelled specials, const Tokenizer& tokenizer,
                                 const Weights& weights) {
  std::vector<std::int32_t> ids;
  if (const auto begin = tokenizer.begin_of_document()) ids.push_back(*begin);
  tokenizer.append(text, specials, ids);
  const std::optional<std::int32_t> end = tokenizer.end_of_document();
  if (ids.empty() && (end || weights.end)) ids.push_back(end ? *end : static_cast<std::int32_t>(*weights.end));
  if (ids.empty()) throw Error(Exit::usage, "an empty prompt, and no token that begins a document: give some text");
  const std::int64_t vocab = weights.deck.model.vocab;
  for (const std::int32_t id : ids) {
    if (id < vocab) continue;
    throw Error(Exit::data, "the tokenizer (" + tokenizer.describe() + ") gives token " + std::to_string(id) +
                                ", but the model knows " + std::to_string(vocab) +
                                ": it was not trained with this one");
  }
  return ids;
}

std::int64_t longest_of(const std::vector<std::vector<std::int32_t>>& prompts) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  return static_cast<std::int64_t>(longest);
}

std::int64_t tokens_of(const GenerateRequest& request, const ModelDeck& model, std::int64_t longest) {
  constexpr std::int64_t k_usual = 128;
  const bool bounded = model.position == "learned" && model.sequence > longest;
  return request.tokens.value_or(bounded ? std::min(k_usual, model.sequence - longest) : k_usual);
}

// What the prompts need of the model.
ModelMemory memory_for(const std::vector<std::vector<std::int32_t>>& prompts, const GenerateRequest& request,
                       std::int64_t tokens) {
  const std::int64_t longest = longest_of(prompts);
  ModelMemory memory;
  memory.slots = std::min<std::int64_t>(request.batch, std::ssize(prompts));
  memory.capacity = longest + tokens;
  memory.pass = std::max<std::int64_t>(memory.slots, std::min<std::int64_t>(256, longest));
  memory.logit_rows = memory.slots;
  return memory;
}

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void write_lines(const std::string& path, const std::vector<std::string>& prompts,
                 const std::vector<Continuation>& results, const Tokenizer& tokenizer) {
  std::string text;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Json line = {{"prompt", prompts[i]},
                       {"text", tokenizer.decode(results[i].ids)},
                       {"tokens", results[i].ids.size()},
                       {"ended", results[i].ended == Ended::end_token ? "end" : "length"}};
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (path.empty()) return say(text);
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(Exit::data, "--output " + path + " cannot be written");
}

}  // namespace

void check(const GenerateRequest& r) {
  const auto refuse = [](const std::string& text) { throw SharedError(Exit::usage, "trireme generate: " + text); };
  const Sampling& s = r.options.sampling;
  if (r.path.empty())
    refuse("needs a checkpoint, a run folder or a Hugging Face folder: trireme generate PATH --prompt TEXT");
  if (r.prompt.has_value() != r.prompts.empty()) refuse("needs --prompt TEXT or --prompts FILE.jsonl, one of them");
  if (!r.output.empty() && r.prompts.empty()) refuse("--output goes with --prompts");
  if (r.tokens.value_or(0) < 0) refuse("--tokens = " + std::to_string(*r.tokens) + ", expected 0 or more");
  if (r.batch < 1) refuse("--batch = " + std::to_string(r.batch) + ", expected 1 or more");
  if (!(s.temperature >= 0)) refuse("--temperature = " + std::to_string(s.temperature) + ", expected 0 or more");
  if (s.top_k < 0) refuse("--top-k = " + std::to_string(s.top_k) + ", expected 0 (all) or more");
  if (!(s.top_p > 0 && s.top_p <= 1))
    refuse("--top-p = " + std::to_string(s.top_p) + ", expected above 0 and at most 1");
}

void run_generate(const GenerateRequest& request, const Weights& weights, const GeneratePlace& place) {
  const bool speaks = place.control.rank() == 0;
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(request, weights);
  const std::vector<std::string> texts = request.prompt ? std::vector{*request.prompt} : read_prompts(request.prompts);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : texts) prompts.push_back(ids_of(text, request.specials, *tokenizer, weights));
  GenerateOptions options = request.options;
  options.tokens = tokens_of(request, weights.deck.model, longest_of(prompts));
  if (weights.end) options.end = weights.end;
  if (const auto end = tokenizer->end_of_document(); end && !options.end) options.end = *end;
  const double start = now();
  LanguageModel model(weights.deck.model, place.compute, place.grid, place.backend, place.kind,
                      memory_for(prompts, request, options.tokens));
  model.load(weights, place.control);
  const double loaded = now();
  StreamDecoder decoder(*tokenizer);
  if (speaks && request.prompt) say(*request.prompt);
  const auto stream = [&](std::size_t, std::int32_t id) {
    if (speaks && request.prompt) say(decoder.push(id));
  };
  const std::vector<Continuation> results = generate(model, prompts, options, stream);
  if (!speaks) return;
  if (request.prompt) say(decoder.finish() + "\n");
  if (!request.prompt) write_lines(request.output, texts, results, *tokenizer);
  std::size_t n = 0;
  for (const Continuation& result : results) n += result.ids.size();
  std::fprintf(stderr, "%zu tokens at %.1f per second; %s of device memory, loaded in %.2f s\n", n,
               static_cast<double>(n) / std::max(1e-9, now() - loaded),
               bytes_text(static_cast<double>(model.bytes())).c_str(), loaded - start);
}

}  // namespace trireme
