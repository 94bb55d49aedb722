#include "utf8.h"

#include <cstdint>

namespace trireme {

namespace {

unsigned char byte_at(const std::string& text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the character that starts at i; 0: none does (RFC 3629: no overlong forms, no surrogates, up to U+10FFFF).
std::size_t character_length(const std::string& text, std::size_t i) {
  const unsigned char first = byte_at(text, i);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return 0;
  std::uint32_t code = first & (0x7FU >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (byte_at(text, i + k) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

constexpr const char* k_prefix =
    "\xF4\x8F";  // of U+10F080 ... U+10F0FF, followed by two bytes that hold the shielded one

}  // namespace

std::optional<std::size_t> first_not_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return {};
}

std::string shield(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
      continue;
    }
    out += k_prefix;
    out += static_cast<char>(0x80U | byte >> 6);
    out += static_cast<char>(0x80U | (byte & 0x3FU));
  }
  return out;
}

std::string unshield(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool shielded =
        text.compare(i, 2, k_prefix) == 0 && i + 3 < text.size() && (byte_at(text, i + 2) & 0xFEU) == 0x82U;
    if (!shielded) {
      out += text[i];
      continue;
    }
    out += static_cast<char>((byte_at(text, i + 2) & 0x3U) << 6 | (byte_at(text, i + 3) & 0x3FU));
    i += 3;
  }
  return out;
}

}  // namespace trireme
