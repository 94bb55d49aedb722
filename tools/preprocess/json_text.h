#pragma once
// The text of one line of JSON: the string under a key of the object. It keeps nothing of the rest.

#include <string>
#include <string_view>

// Puts the string into `text`, or says what is wrong with the line; empty: nothing.
std::string read_json(std::string_view line, const std::string& key, std::string& text);
