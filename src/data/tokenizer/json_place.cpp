#include <algorithm>

#include "json_parts.h"
#include "trireme/base/check.h"

namespace trireme {

void JsonPlace::refuse(const std::string& why) const {
  throw Error(Exit::data, where_ + " " + why);
}

JsonPlace JsonPlace::at(const char* key) const {
  if (!value_->is_object()) refuse("is no object");
  const auto found = value_->find(key);
  if (found == value_->end()) refuse(std::string("lacks \"") + key + "\"");
  return {*found, where_ + "." + key};
}

bool JsonPlace::has(const char* key) const {
  if (!value_->is_object()) refuse("is no object");
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

std::vector<JsonPlace> JsonPlace::items() const {
  if (!value_->is_array()) refuse("is no array");
  std::vector<JsonPlace> all;
  for (std::size_t i = 0; i < value_->size(); ++i)
    all.emplace_back((*value_)[i], where_ + "[" + std::to_string(i) + "]");
  return all;
}

std::string JsonPlace::text(const char* key) const {
  const JsonPlace place = at(key);
  if (!place.value().is_string()) place.refuse("is " + place.value().dump() + ", expected a string");
  return place.value().get<std::string>();
}

bool JsonPlace::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const JsonPlace place = at(key);
  if (!place.value().is_boolean()) place.refuse("is " + place.value().dump() + ", expected true or false");
  return place.value().get<bool>();
}

void JsonPlace::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    refuse("has the key \"" + key + "\" = " + value.dump().substr(0, 60) + ", which is not known here");
  }
}

}  // namespace trireme
