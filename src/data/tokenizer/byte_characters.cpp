#include "byte_characters.h"

#include "utf8.h"

namespace trireme {

namespace {

bool stands_for_itself(std::uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<std::uint32_t, 256> codes() {
  std::array<std::uint32_t, 256> code{};
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) code[byte] = stands_for_itself(byte) ? byte : next++;
  return code;
}

constexpr std::uint32_t k_end = 0x100 + 68;  // behind the last character that stands for a byte

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> made;
    for (std::size_t byte = 0; byte < 256; ++byte) append_utf8(codes()[byte], made[byte]);
    return made;
  }();
  return characters;
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  static const std::array<std::int16_t, k_end> byte_of = [] {
    std::array<std::int16_t, k_end> made;
    made.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) made[codes()[byte]] = static_cast<std::int16_t>(byte);
    return made;
  }();
  std::string bytes;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.what != Utf8::character) return {};
    const std::uint32_t code = code_point(text.substr(0, step.length));
    if (code >= k_end || byte_of[code] < 0) return {};
    bytes += static_cast<char>(byte_of[code]);
    text.remove_prefix(step.length);
  }
  return bytes;
}

std::string characters_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_characters()[static_cast<unsigned char>(byte)];
  return text;
}

}  // namespace trireme
