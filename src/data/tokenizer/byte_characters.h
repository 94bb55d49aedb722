#pragma once
// The characters that stand for bytes in the files of byte-level tokenizers: printable Latin-1 for itself, the other 68
// bytes from U+0100 on. It knows no tokens.

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

const std::array<std::string, 256>& byte_characters();  // the character of each byte, as UTF-8

std::optional<std::string> bytes_of_characters(std::string_view text);  // empty where a character stands for no byte
std::string characters_of_bytes(std::string_view bytes);

}  // namespace trireme
