#pragma once
// TOML text as plain values with line numbers: the only door to the TOML library. It knows neither keys nor types of
// the deck.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trireme {

struct TomlValue;
using TomlList = std::vector<TomlValue>;

// A value that no key of the deck can hold, by name: "a table", "a date".
struct TomlOther {
  std::string kind;
};

struct TomlValue {
  std::variant<bool, std::int64_t, double, std::string, TomlList, TomlOther> value;
};

std::string found(const TomlValue& value);  // "the integer 3", "the string \"x\"", "a list"

// One `name = value` of a section. Tables inside a section are values of kind "a table".
struct TomlEntry {
  std::string name;
  TomlValue value;
  int line;
};

// A top-level table, or (with one entry of the same name) a top-level value.
struct TomlSection {
  std::string name;
  int line;
  bool is_table;
  std::vector<TomlEntry> entries;
};

struct TomlText {
  std::vector<TomlSection> sections;
  std::string error;  // of syntax; sections are then empty
  int error_line = 0;
};

TomlText parse_toml(const std::string& text);
std::optional<TomlValue> parse_toml_value(const std::string& text);  // nothing when it is not one TOML value

}  // namespace trireme
