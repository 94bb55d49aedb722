// Deck files and their includes, as text.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "toml_text.h"
#include "trireme/base/check.h"
#include "trireme/deck/read.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_max_files = 200;

struct Including {
  std::string file, prefix;  // prefix: who asked, "a.toml:3: include: ", for messages
};

struct Reader {
  std::vector<DeckSource> sources;
  std::vector<fs::path> open;  // the chain of files being read, to find cycles

  void read(const Including& which);
  void read_includes(const std::string& file, const std::string& text);
};

[[noreturn]] void fail(const std::string& text) {
  throw Error(Exit::usage, text);
}

std::string read_text(const Including& which) {
  std::error_code ignored;
  if (fs::is_directory(which.file, ignored)) fail(which.prefix + "\"" + which.file + "\" is a folder, expected a deck");
  std::ifstream in(which.file, std::ios::binary);
  if (!in) fail(which.prefix + "cannot read the deck \"" + which.file + "\": " + std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The values of the top-level key `include`; complaints about its type name the line.
std::vector<Including> includes_of(const std::string& file, const std::string& text) {
  std::vector<Including> includes;
  const TomlText parsed = parse_toml(text);
  for (const TomlSection& section : parsed.sections) {
    if (section.name != "include") continue;
    const std::string prefix = file + ":" + std::to_string(section.line) + ": include: ";
    const std::string expected = "expected a file name or a list of file names, found ";
    if (section.is_table) fail(prefix + expected + "a table");
    const TomlValue& value = section.entries[0].value;
    const auto* list = std::get_if<TomlList>(&value.value);
    for (const TomlValue& element : list != nullptr ? *list : TomlList{value}) {
      const auto* name = std::get_if<std::string>(&element.value);
      if (name == nullptr) fail(prefix + expected + found(element));
      includes.push_back({(fs::path(file).parent_path() / *name).lexically_normal().string(), prefix});
    }
  }
  return includes;
}

void Reader::read_includes(const std::string& file, const std::string& text) {
  for (const Including& include : includes_of(file, text)) read(include);
}

void Reader::read(const Including& which) {
  const std::string text = read_text(which);
  const fs::path path = fs::weakly_canonical(which.file);
  if (std::find(open.begin(), open.end(), path) != open.end()) {
    fail(which.prefix + "\"" + which.file + "\" includes itself, directly or through others");
  }
  open.push_back(path);
  read_includes(which.file, text);
  open.pop_back();
  sources.push_back({which.file, text});
  if (sources.size() > k_max_files) fail(which.prefix + "more than " + std::to_string(k_max_files) + " included files");
}

std::string take(const std::string& packed, std::size_t& at, std::size_t count) {
  require(count <= packed.size() - at, "packed decks end early");
  at += count;
  return packed.substr(at - count, count);
}

std::size_t take_size(const std::string& packed, std::size_t& at) {
  const std::size_t end = packed.find(' ', at);
  require(end != std::string::npos, "packed decks end early");
  const std::size_t size = std::stoull(take(packed, at, end - at));
  ++at;
  return size;
}

}  // namespace

std::vector<DeckSource> read_deck_files(const std::string& file) {
  Reader reader;
  reader.read({file, ""});
  return std::move(reader.sources);
}

std::string pack(const std::vector<DeckSource>& sources) {
  std::string packed;
  for (const DeckSource& source : sources) {
    packed +=
        std::to_string(source.file.size()) + " " + std::to_string(source.text.size()) + " " + source.file + source.text;
  }
  return packed;
}

std::vector<DeckSource> unpack(const std::string& packed) {
  std::vector<DeckSource> sources;
  for (std::size_t at = 0; at < packed.size();) {
    const std::size_t file_size = take_size(packed, at), text_size = take_size(packed, at);
    DeckSource source;
    source.file = take(packed, at, file_size);
    source.text = take(packed, at, text_size);
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace trireme
