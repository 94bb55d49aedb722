#pragma once
// The tokenizers of tests/data/tokenizers and what other programs make of texts with them.

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../help.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

inline std::string data_path(const std::string& name) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/data/" + name;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::unique_ptr<Tokenizer> open_known(const std::string& name) {
  return open_tokenizer(data_path("tokenizers/" + name), "test");
}

}  // namespace trireme
