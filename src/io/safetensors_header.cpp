#include "safetensors_header.h"

#include <algorithm>

#include "json_file.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Exit::data, path + ": " + why + "; the file is damaged or no safetensors file");
}

// 0 for a type that does not exist.
std::int64_t bytes_of(const std::string& type) {
  static const std::map<std::string, std::int64_t> sizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

std::int64_t size_at(const std::string& what, const Json& number, const std::string& path) {
  constexpr std::uint64_t k_largest = std::uint64_t{1} << 62;
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > k_largest) {
    refuse(path, what + " is " + number.dump(-1, ' ', false, Json::error_handler_t::replace) + ", expected a size");
  }
  return number.get<std::int64_t>();
}

std::vector<std::int64_t> sizes_at(const std::string& what, const Json& object, const char* key,
                                   const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) refuse(path, what + " has no list \"" + key + "\"");
  std::vector<std::int64_t> sizes;
  for (const Json& number : *found) sizes.push_back(size_at(what + ": an element of " + key, number, path));
  return sizes;
}

// Bytes of a tensor, or -1 when they do not fit into the file anyway.
std::int64_t bytes_of(const SafetensorsEntry& entry, std::int64_t data_bytes) {
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) return 0;
  std::int64_t bytes = bytes_of(entry.type);
  for (const std::int64_t size : entry.shape) {
    if (bytes > data_bytes / size) return -1;
    bytes *= size;
  }
  return bytes;
}

SafetensorsEntry entry_of(const std::string& path, const std::string& name, const Json& value,
                          std::int64_t data_bytes) {
  const std::string what = "tensor \"" + name + "\"";
  if (!value.is_object()) refuse(path, what + " is not described by an object");
  SafetensorsEntry entry;
  const auto type = value.find("dtype");
  if (type == value.end() || !type->is_string()) refuse(path, what + " has no \"dtype\"");
  entry.type = type->get<std::string>();
  if (bytes_of(entry.type) == 0) refuse(path, what + " has the unknown dtype " + entry.type);
  entry.shape = sizes_at(what, value, "shape", path);
  const std::vector<std::int64_t> offsets = sizes_at(what, value, "data_offsets", path);
  if (offsets.size() != 2) refuse(path, what + " has " + std::to_string(offsets.size()) + " data_offsets, expected 2");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::string span = std::to_string(entry.begin) + " to " + std::to_string(entry.end);
  if (entry.begin > entry.end || entry.end > data_bytes) {
    refuse(path, what + " lies at bytes " + span + ", but there are " + std::to_string(data_bytes) + " bytes of data");
  }
  const std::int64_t expected = bytes_of(entry, data_bytes);
  if (entry.end - entry.begin != expected) {
    refuse(path, what + " lies at bytes " + span + ", but its shape and dtype need " +
                     (expected < 0 ? "more than the file has" : std::to_string(expected)));
  }
  return entry;
}

void check_coverage(const std::string& path, const SafetensorsHeader& header, std::int64_t data_bytes) {
  std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, const std::string*>> spans;
  for (const auto& [name, entry] : header.entries) spans.push_back({{entry.begin, entry.end}, &name});
  std::sort(spans.begin(), spans.end());
  std::int64_t end = 0;
  for (const auto& [span, name] : spans) {
    if (span.first != end) {
      refuse(path, "tensor \"" + *name + "\" begins at byte " + std::to_string(span.first) + ", expected " +
                       std::to_string(end) + ", where the one before ends");
    }
    end = span.second;
  }
  if (end != data_bytes)
    refuse(path, "the tensors end at byte " + std::to_string(end) + " of " + std::to_string(data_bytes));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json, std::int64_t data_bytes) {
  const Json root = parse_json(path + ": the header", json);
  if (!root.is_object()) refuse(path, "the header is not a JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name != "__metadata__") {
      header.entries[name] = entry_of(path, name, value, data_bytes);
      continue;
    }
    if (!value.is_object()) refuse(path, "__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(path, "__metadata__ holds something else than texts");
      header.metadata[key] = text.get<std::string>();
    }
  }
  check_coverage(path, header, data_bytes);
  return header;
}

}  // namespace trireme
