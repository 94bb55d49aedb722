#include "print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "fields.h"
#include "trireme/base/log.h"
#include "trireme/deck/read.h"

namespace trireme {

namespace {

constexpr std::size_t k_width = 110;  // of comments and lists

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string one_line, lines;
  for (const T& value : values) {
    one_line += (one_line.empty() ? "" : ", ") + text_of(value);
    lines += "  " + text_of(value) + ",\n";
  }
  return one_line.size() <= k_width ? "[" + one_line + "]" : "[\n" + lines + "]";
}

std::string escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f ? format("\\u%04X", code) : std::string(1, c);
}

std::string value_text(const Field& field) {
  return std::visit([](const auto& slot) { return text_of(*slot.value); }, field.slot);
}

std::string limit_text(const Field& field) {
  return std::visit([](const auto& slot) { return slot.limit.text; }, field.slot);
}

std::string comment(const std::string& text) {
  std::istringstream words(text);
  std::string out, line = "#";
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > k_width) {
      out += line + "\n";
      line.assign(1, '#');
    }
    line += " " + word;
  }
  return out + line + "\n";
}

}  // namespace

std::string text_of(bool value) {
  return value ? "true" : "false";
}

std::string text_of(std::int64_t value) {
  return std::to_string(value);
}

std::string text_of(double value) {
  std::array<char, 64> digits;
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto style = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value, style).ptr);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  const std::size_t zero = text.find("e-0");
  if (zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

std::string text_of(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) text += escaped(c);
  return text + "\"";
}

std::string text_of(const std::vector<std::int64_t>& values) {
  return list_text(values);
}

std::string text_of(const std::vector<double>& values) {
  return list_text(values);
}

std::string text_of(const std::vector<std::string>& values) {
  return list_text(values);
}

namespace {

enum class Print : std::uint8_t { all, changes };

std::string print(const Deck& deck, Print what) {
  Deck copy = deck, defaults;  // describe() is one function for readers and writers, so it wants a mutable deck
  const FieldList fields = list_fields(copy), before = list_fields(defaults);
  std::string text, section;
  for (std::size_t i = 0; i < fields.fields.size(); ++i) {
    const Field& field = fields.fields[i];
    if (what == Print::changes && value_text(field) == value_text(before.fields[i])) continue;
    if (field.section != section) text += (text.empty() ? "[" : "\n[") + field.section + "]\n";
    section = field.section;
    text += field.name + " = " + value_text(field) + "\n";
  }
  return text;
}

}  // namespace

std::string print_deck(const Deck& deck) {
  return print(deck, Print::all);
}

std::string print_changes(const Deck& deck) {
  return print(deck, Print::changes);
}

std::string print_reference() {
  Deck defaults;
  const FieldList list = list_fields(defaults);
  std::string text =
      "# Every key of Trireme with its default, its meaning and, in brackets, its limit. A deck states only what "
      "differs.\n"
      "# Made by `trireme deck`; a test compares it with the program.\n";
  for (const Section& section : list.sections) {
    text += "\n\n# " + section.doc + "\n[" + section.name + "]\n";
    for (const Field& field : list.fields) {
      if (field.section != section.name) continue;
      const std::string limit = limit_text(field), note = limit.empty() ? limit : " (" + limit + ")";
      text.append("\n").append(comment(field.doc + note));
      text += field.name + " = " + value_text(field) + "\n";
    }
  }
  return text;
}

std::vector<std::string> differences(const Deck& here, const Deck& there, std::span<const std::string> sections) {
  Deck one = here, other = there;
  const FieldList list = list_fields(one), other_list = list_fields(other);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < list.fields.size(); ++i) {
    const Field& field = list.fields[i];
    if (std::find(sections.begin(), sections.end(), field.section) == sections.end()) continue;
    const std::string mine = value_text(field), theirs = value_text(other_list.fields[i]);
    if (mine != theirs) lines.push_back(field.key() + ": " + mine + " here, " + theirs + " there");
  }
  return lines;
}

}  // namespace trireme
