#pragma once
// Helpers of the deck tests: decks from text, messages of bad ones, a folder that goes away.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/deck/read.h"

namespace trireme::test {

// A deck that needs no files; tests append to it.
inline const std::string k_mock = "[data]\nsource = \"mock\"\n";

inline Deck parse(const std::string& text, const std::vector<std::string>& overrides = {}, int n_ranks = 0) {
  return parse_deck({{"test.toml", text}}, overrides, n_ranks);
}

// What is said about a bad deck, or "" when nothing is.
inline std::string message(const std::string& text, const std::vector<std::string>& overrides = {}, int n_ranks = 0) {
  try {
    parse(text, overrides, n_ranks);
  } catch (const Error& error) {
    return error.code == Exit::usage ? error.what() : std::string("wrong exit code: ") + error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Folder {
 public:
  explicit Folder(const std::string& name) : path_(std::filesystem::temp_directory_path() / ("trireme_deck_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme::test
