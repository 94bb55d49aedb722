#include "toml_text.h"

#include <algorithm>

// Version 3.3 asserts, and with NDEBUG assumes, what broken TOML violates ("[.a]") before it checks the same thing
// properly. Both are switched off here, so that the check decides.
#undef NDEBUG
#define TOML_ASSERT(holds) static_cast<void>(0)
#include <toml++/toml.h>

#include "print.h"
#include "utf8.h"

namespace trireme {

namespace {

TomlValue convert(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return {value->get()};
  if (const auto* value = node.as_integer()) return {value->get()};
  if (const auto* value = node.as_floating_point()) return {value->get()};
  if (const auto* value = node.as_string()) return {unshield(value->get())};
  if (node.is_table()) return {TomlOther{"a table"}};
  const auto* list = node.as_array();
  if (list == nullptr) return {TomlOther{"a date or time"}};
  TomlList values;
  for (const toml::node& element : *list) values.push_back(convert(element));
  return {std::move(values)};
}

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

TomlSection convert_section(const std::string& name, const toml::node& node) {
  const auto* table = node.as_table();
  if (table == nullptr) return {name, line_of(node), false, {{name, convert(node), line_of(node)}}};
  TomlSection section{name, line_of(node), true, {}};
  for (const auto& [key, value] : *table) {
    section.entries.push_back(
        {unshield(std::string(key.str())), convert(value), static_cast<int>(key.source().begin.line)});
  }
  return section;
}

}  // namespace

TomlText parse_toml(const std::string& text) {
  if (const auto at = first_not_utf8(text)) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n') + 1;
    return {{}, "not UTF-8 text", static_cast<int>(line)};
  }
  TomlText result;
  const std::string mark = "\xEF\xBB\xBF";
  try {
    for (const auto& [key, node] : toml::parse(shield(text.starts_with(mark) ? text.substr(mark.size()) : text))) {
      result.sections.push_back(convert_section(unshield(std::string(key.str())), node));
    }
  } catch (const toml::parse_error& error) {
    return {{}, unshield(std::string(error.description())), static_cast<int>(error.source().begin.line)};
  }
  // The library sorts by name; messages read better in the order of the file.
  const auto by_line = [](const auto& a, const auto& b) { return a.line < b.line; };
  for (TomlSection& section : result.sections)
    std::stable_sort(section.entries.begin(), section.entries.end(), by_line);
  std::stable_sort(result.sections.begin(), result.sections.end(), by_line);
  return result;
}

std::optional<TomlValue> parse_toml_value(const std::string& text) {
  const TomlText parsed = parse_toml("value = " + text);
  if (parsed.sections.size() != 1 || parsed.sections[0].entries.size() != 1 || parsed.sections[0].is_table) return {};
  return parsed.sections[0].entries[0].value;
}

bool is_utf8(const std::string& text) {
  return parse_toml("value = " + text_of(text)).error.empty();
}

std::string found(const TomlValue& value) {
  struct {
    std::string operator()(bool x) const { return text_of(x); }
    std::string operator()(std::int64_t x) const { return "the integer " + text_of(x); }
    std::string operator()(double x) const { return "the number " + text_of(x); }
    std::string operator()(const std::string& x) const { return "the string " + text_of(x); }
    std::string operator()(const TomlList&) const { return "a list"; }
    std::string operator()(const TomlOther& x) const { return x.kind; }
  } name;
  return std::visit(name, value.value);
}

}  // namespace trireme
