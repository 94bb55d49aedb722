#include <filesystem>

#include "byte_characters.h"
#include "token_files.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

std::string bytes_or_refuse(std::string_view characters, const std::string& where) {
  auto bytes = bytes_of_characters(characters);
  if (bytes) return *bytes;
  throw Error(Exit::data, where + ": \"" + std::string(characters) + "\" holds a character that stands for no byte");
}

// A line is two tokens with a space between; the first line may say the version.
void read_merges(const std::string& text, const std::string& path, PipelineParts& parts) {
  std::int32_t rank = 0, number = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find('\n', i), text.size());
    std::string_view line = std::string_view(text).substr(i, end - i);
    if (line.ends_with('\r')) line.remove_suffix(1);
    i = end + 1;
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::string where = path + ":" + std::to_string(number);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || line.find(' ', space + 1) != std::string_view::npos ||
        space + 1 == line.size())
      throw Error(Exit::data, where + ": \"" + std::string(line) + "\" is not two tokens with a space between");
    add_merge(bytes_or_refuse(line.substr(0, space), where), bytes_or_refuse(line.substr(space + 1), where), rank++,
              where, parts);
  }
  if (rank == 0) throw Error(Exit::data, path + " holds no merges");
}

}  // namespace

PipelineParts read_gpt2_files(const std::string& vocabulary, const std::string& merges) {
  const std::string vocabulary_text = file_text(vocabulary), merges_text = file_text(merges);
  PipelineParts parts;
  add_byte_level_vocabulary(json_of(vocabulary_text, vocabulary), vocabulary, parts);
  read_merges(merges_text, merges, parts);
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id) parts.pieces.emplace_back(parts.vocabulary.token(id));
  if (const auto end = parts.vocabulary.find("<|endoftext|>")) parts.added.push_back({"<|endoftext|>", *end});
  parts.end_of_document = usual_end(parts.added);
  parts.cutters.emplace_back(SplitCutter{Pattern(k_gpt2_pattern, "GPT-2"), Cut::isolated, false});
  parts.what = "byte-level BPE";
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  parts.files = name(vocabulary) + ", " + name(merges);
  parts.fingerprint = hash_text("gpt2 files", {vocabulary_text, merges_text});
  return parts;
}

}  // namespace trireme
