#include "utf8.h"

#include <cstring>

namespace trireme {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

struct Lead {
  std::size_t length;        // 0: no character begins with this byte
  std::uint8_t first, last;  // allowed second bytes: no overlong forms, no surrogates, nothing above U+10FFFF
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, static_cast<std::uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<std::uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  return {4, static_cast<std::uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
          static_cast<std::uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
}

// Bytes below 0x80 at the beginning of `text`, eight at a time.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + 8 <= text.size(); i += 8) {
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (i < text.size() && byte_at(text, i) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const Lead lead = lead_of(byte_at(text, 0));
  if (lead.length == 1) return {Utf8::character, 1};
  if (lead.length == 0) return {Utf8::ill_formed, 1};
  std::uint8_t first = lead.first, last = lead.last;
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8::cut, i};
    if (byte_at(text, i) < first || byte_at(text, i) > last) return {Utf8::ill_formed, i};
    first = 0x80;
    last = 0xBF;
  }
  return {Utf8::character, lead.length};
}

std::string_view well_formed(std::string_view text, std::string& storage) {
  std::size_t copied = 0;
  storage.clear();
  for (std::size_t i = ascii_prefix(text); i < text.size(); i += ascii_prefix(text.substr(i))) {
    const Utf8Step step = utf8_step(text.substr(i));
    if (step.what != Utf8::character) {
      storage.append(text, copied, i - copied);
      storage += k_replacement;
      copied = i + step.length;
    }
    i += step.length;
  }
  if (copied == 0) return text;
  storage.append(text, copied);
  return storage;
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

std::uint32_t code_point(std::string_view character) {
  const std::size_t length = character.size();
  std::uint32_t code = length == 1 ? byte_at(character, 0) : byte_at(character, 0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte_at(character, i) & 0x3FU);
  return code;
}

}  // namespace trireme
