#pragma once
// The keys of one config.json, with a record of those that were asked for: what nobody asked for is reported, not
// forgotten.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "json_file.h"

namespace trireme {

class HfKeys {
 public:
  HfKeys(std::string path, Json root) : path_(std::move(path)), root_(std::move(root)) {}

  // Throw Error(Exit::data) for another type, and where there is no default for an absent key. null counts as absent.
  std::int64_t size(const std::string& key);
  std::int64_t size(const std::string& key, std::int64_t otherwise);
  double number(const std::string& key, double otherwise);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  bool is_null(const std::string& key) const;                 // there, with the value null
  const Json* find(const std::string& key);                   // null when absent; counts as asked for
  std::optional<std::int64_t> token(const std::string& key);  // an id, or the first of a list

  // Keys that change nothing of what the model computes.
  void neutral(std::initializer_list<const char*> keys);
  // The key must be absent or have this value; why: what the program lacks otherwise.
  void must_be(const std::string& key, const Json& value, const std::string& why);
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;
  std::vector<std::string> unknown() const;  // "key = value" of what nobody asked for
  const std::string& path() const { return path_; }

 private:
  const Json& of_type(const std::string& key, bool fits, const char* expected) const;
  std::string path_;
  Json root_;
  std::set<std::string> used_;
};

}  // namespace trireme
