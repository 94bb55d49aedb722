#include <array>
#include <charconv>
#include <filesystem>

#include "token_files.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// What a file of ranks does not say, for the ones in use; they are told apart by the number of ranks.
struct Known {
  std::int64_t n_ranks;
  const char* name;
  const char* pattern;
  std::vector<std::pair<std::string, std::int32_t>> special;
  const char* begin;  // of a document; null: none
};

constexpr const char* k_cl100k_pattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* k_qwen_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* k_o200k_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::pair<std::string, std::int32_t>> llama3_special() {
  std::vector<std::pair<std::string, std::int32_t>> special{{"<|begin_of_text|>", 0},
                                                            {"<|end_of_text|>", 1},
                                                            {"<|reserved_special_token_0|>", 2},
                                                            {"<|reserved_special_token_1|>", 3},
                                                            {"<|reserved_special_token_2|>", 4},
                                                            {"<|reserved_special_token_3|>", 5},
                                                            {"<|start_header_id|>", 6},
                                                            {"<|end_header_id|>", 7},
                                                            {"<|reserved_special_token_4|>", 8},
                                                            {"<|eot_id|>", 9}};
  for (std::int32_t i = 10; i < 256; ++i)
    special.emplace_back("<|reserved_special_token_" + std::to_string(i - 5) + "|>", i);
  for (auto& [name, id] : special) id += 128000;
  return special;
}

std::vector<Known> known_files() {
  return {{50256, "gpt2 (r50k_base)", k_gpt2_pattern, {{"<|endoftext|>", 50256}}, nullptr},
          {50280, "p50k_base", k_gpt2_pattern, {{"<|endoftext|>", 50256}}, nullptr},
          {100256,
           "cl100k_base",
           k_cl100k_pattern,
           {{"<|endoftext|>", 100257},
            {"<|fim_prefix|>", 100258},
            {"<|fim_middle|>", 100259},
            {"<|fim_suffix|>", 100260},
            {"<|endofprompt|>", 100276}},
           nullptr},
          {128000, "Llama 3", k_llama3_pattern, llama3_special(), "<|begin_of_text|>"},
          {151643,
           "Qwen",
           k_qwen_pattern,
           {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}},
           nullptr},
          {199998, "o200k_base", k_o200k_pattern, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}, nullptr}};
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0, n_bits = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    constexpr std::string_view k_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = k_digits.find(c);
    if (digit == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  return bytes;
}

struct Line {
  std::string token;
  std::int64_t rank;
};

std::optional<Line> parse(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return {};
  auto token = from_base64(line.substr(0, space));
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
  if (!token || token->empty() || error != std::errc() || end != line.data() + line.size()) return {};
  return Line{std::move(*token), rank};
}

void read_ranks(const std::string& text, const std::string& path, Vocabulary& vocabulary) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find('\n', i), text.size());
    std::string_view line = std::string_view(text).substr(i, end - i);
    if (line.ends_with('\r')) line.remove_suffix(1);
    i = end + 1;
    const std::string where = path + ":" + std::to_string(++number);
    if (line.empty()) continue;
    auto parsed = parse(line);
    if (!parsed) throw Error(Exit::data, where + ": expected a token in base64, a space and its rank");
    vocabulary.add(std::move(parsed->token), parsed->rank, where);
  }
}

// Two neighbours merge when together they are a token, lowest rank first: every cut of a token into two tokens.
void add_merges(PipelineParts& parts) {
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id) {
    const std::string_view token = parts.vocabulary.token(id);
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = parts.vocabulary.find(token.substr(0, cut)), right = parts.vocabulary.find(token.substr(cut));
      if (left && right) parts.merges.insert(*left, *right, {id, id});
    }
  }
}

Known settings_of(std::int64_t n_ranks, const std::string& path) {
  std::string names;
  for (Known& known : known_files()) {
    if (known.n_ranks == n_ranks) return std::move(known);
    names += (names.empty() ? "" : ", ") + std::to_string(known.n_ranks) + " (" + known.name + ")";
  }
  throw Error(Exit::data, path + " holds " + std::to_string(n_ranks) +
                              " ranks. A tiktoken file does not say how text is cut into words; known are files of " +
                              names + ". For others use a tokenizer.json");
}

}  // namespace

bool looks_like_tiktoken(const std::string& path) {
  const std::string text = file_text(path);
  return parse(std::string_view(text).substr(0, text.find('\n'))).has_value();
}

PipelineParts read_tiktoken(const std::string& path) {
  const std::string text = file_text(path);
  PipelineParts parts;
  read_ranks(text, path, parts.vocabulary);
  const Known known = settings_of(parts.vocabulary.n_tokens(), path);
  add_merges(parts);
  parts.whole_words_first = true;
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id) parts.pieces.emplace_back(parts.vocabulary.token(id));
  for (const auto& [name, id] : known.special) {
    if (parts.vocabulary.has(id))
      throw Error(Exit::data, path + ": id " + std::to_string(id) + " is a rank, but belongs to " + name);
    parts.added.push_back({name, id});
    parts.pieces.resize(std::max(parts.pieces.size(), static_cast<std::size_t>(id) + 1));
    parts.pieces[static_cast<std::size_t>(id)] = name;
    if (known.begin != nullptr && name == known.begin) parts.begin_of_document = id;
  }
  parts.end_of_document = usual_end(parts.added);
  parts.cutters.emplace_back(SplitCutter{Pattern(known.pattern, known.name), Cut::isolated, false});
  parts.what = std::string("tiktoken ") + known.name;
  parts.files = std::filesystem::path(path).filename().string();
  parts.fingerprint = hash_text("tiktoken", {text});
  return parts;
}

}  // namespace trireme
