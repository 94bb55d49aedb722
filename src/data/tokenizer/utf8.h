#pragma once
// UTF-8 character by character (RFC 3629), with the ill-formed parts that Unicode's "maximal subpart" rule makes. It
// knows no properties of characters.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class Utf8 : std::uint8_t { character, ill_formed, cut };  // cut: the text ends inside a character

struct Utf8Step {
  Utf8 what;
  std::size_t length;  // bytes of the character or of the ill-formed part, at least 1
};

Utf8Step utf8_step(std::string_view text);  // at the beginning of `text`, which is not empty

inline constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD

// `text` itself when it is well-formed, else a copy in `storage` with U+FFFD for every ill-formed part.
std::string_view well_formed(std::string_view text, std::string& storage);

void append_utf8(std::uint32_t code, std::string& text);
std::uint32_t code_point(std::string_view character);  // of one well-formed character

}  // namespace trireme
