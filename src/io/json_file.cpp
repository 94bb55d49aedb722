#include "json_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

Json parse_json(const std::string& what, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto no_repetitions = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Error(Exit::data, what + " names \"" + value.get<std::string>() + "\" twice");
    }
    return true;
  };
  try {
    return Json::parse(text, no_repetitions);
  } catch (const Json::exception& error) {
    throw Error(Exit::data, what + " is not JSON (" + error.what() + ")");
  }
}

Json read_json(const std::string& path) {
  constexpr std::size_t k_most = 100'000'000;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Exit::data, path + ": cannot be opened: " + std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.view().size() > k_most)
    throw Error(Exit::data, path + ": cannot be read, or is larger than a file of this kind can be");
  Json root = parse_json(path, text.view());
  if (!root.is_object()) throw Error(Exit::data, path + ": is not a JSON object");
  return root;
}

}  // namespace trireme
