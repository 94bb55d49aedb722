#pragma once
// Text checks and a detour around version 3.3 of the TOML library, whose test for white space is undefined for
// characters such as U+00FC outside strings. Its parser is shown private-use characters instead, one per byte; it does
// not know TOML.

#include <optional>
#include <string>

namespace trireme {

std::optional<std::size_t> first_not_utf8(const std::string& text);  // position of the first byte that is not UTF-8

// Every byte from 0x80 on as the character U+10F000 + byte, and back.
std::string shield(const std::string& text);
std::string unshield(const std::string& text);

}  // namespace trireme
