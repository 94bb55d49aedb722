#include "hf_keys.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_largest = 2147483647;  // of a size, as in decks

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 100 ? text : text.substr(0, 97) + "...";
}

}  // namespace

const Json* HfKeys::find(const std::string& key) {
  used_.insert(key);
  const auto found = root_.find(key);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

void HfKeys::refuse(const std::string& key, const std::string& why) const {
  const auto found = root_.find(key);
  const std::string value = found == root_.end() ? "is absent" : "= " + shown(*found);
  throw Error(Exit::data, path_ + ": \"" + key + "\" " + value + ": " + why);
}

bool HfKeys::is_null(const std::string& key) const {
  const auto found = root_.find(key);
  return found != root_.end() && found->is_null();
}

std::int64_t HfKeys::size(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number_integer()) refuse(key, "expected a whole number");
  const auto n = value->get<std::int64_t>();
  if (value->is_number_unsigned() ? value->get<std::uint64_t>() > k_largest : n < 0)
    refuse(key, "expected a size between 0 and " + std::to_string(k_largest));
  return n;
}

std::int64_t HfKeys::size(const std::string& key, std::int64_t otherwise) {
  return find(key) == nullptr ? otherwise : size(key);
}

double HfKeys::number(const std::string& key, double otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(key, "expected a number");
  return value->get<double>();
}

bool HfKeys::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, "expected true or false");
  return value->get<bool>();
}

std::string HfKeys::text(const std::string& key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, "expected a text");
  return value->get<std::string>();
}

std::optional<std::int64_t> HfKeys::token(const std::string& key) {
  const Json* value = find(key);
  if (value != nullptr && value->is_array() && !value->empty()) value = &value->front();
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) refuse(key, "expected a token id or a list of them");
  return value->get<std::int64_t>();
}

void HfKeys::neutral(std::initializer_list<const char*> keys) {
  used_.insert(keys.begin(), keys.end());
}

void HfKeys::must_be(const std::string& key, const Json& value, const std::string& why) {
  const Json* found = find(key);
  if (found != nullptr && *found != value) refuse(key, "only " + shown(value) + " is possible: " + why);
}

std::vector<std::string> HfKeys::unknown() const {
  std::vector<std::string> lines;
  for (const auto& [key, value] : root_.items()) {
    if (!used_.contains(key)) lines.push_back(key + " = " + shown(value));
  }
  return lines;
}

}  // namespace trireme
