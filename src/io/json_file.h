#pragma once
// JSON files of others, read whole. A repeated key is an error: JSON leaves it open what it would mean.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

using Json = nlohmann::json;

// what: begins every message. Throws Error(Exit::data).
Json parse_json(const std::string& what, std::string_view text);
Json read_json(const std::string& path);  // at most 100 MB; the root must be an object

}  // namespace trireme
