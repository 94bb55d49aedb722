#pragma once
// One TOML value into one key of the deck: type and limit are checked, nothing is converted except an integer where a
// number is expected and one string where a list of strings is expected.

#include <optional>
#include <string>

#include "fields.h"
#include "toml_text.h"

namespace trireme {

// Stores the value, or returns what is wrong with it ("expected an integer, found the string \"x\"") and stores
// nothing.
std::optional<std::string> assign(const Field& field, const TomlValue& value);

bool holds_string(
    const Field& field);  // its value is one string, so that a bare word on the command line needs no quotes

}  // namespace trireme
