#pragma once
// The JSON header of a safetensors file, checked against the size of the data behind it. It reads no tensor.
// The header is parsed by nlohmann-json: strict, not recursive, and every tool of the trade uses it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct SafetensorsEntry {
  std::string type;  // "F32"
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes behind the header
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// The tensors fill the data_bytes exactly, without holes and without overlaps. Throws Error(Exit::data) that begins
// with `path`.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json, std::int64_t data_bytes);

}  // namespace trireme
