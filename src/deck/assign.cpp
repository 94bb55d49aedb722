#include "assign.h"

#include <cmath>

#include "nearest.h"
#include "print.h"

namespace trireme {

namespace {

// read(): the value as T, or nothing when it has another type. expected<T>: the type in words.
template <class T>
const char* const expected = "";
template <>
const char* const expected<bool> = "true or false";
template <>
const char* const expected<std::int64_t> = "an integer";
template <>
const char* const expected<double> = "a finite number";
template <>
const char* const expected<std::string> = "a string";
template <>
const char* const expected<std::vector<std::int64_t>> = "a list of integers such as [1, 2]";
template <>
const char* const expected<std::vector<double>> = "a list of numbers such as [0.7, 0.3]";
template <>
const char* const expected<std::vector<std::string>> = "a list of strings such as [\"a\", \"b\"]";

template <class T>
bool read(const TomlValue& from, T& to) {
  const T* value = std::get_if<T>(&from.value);
  if (value != nullptr) to = *value;
  return value != nullptr;
}

bool read(const TomlValue& from, double& to) {
  if (const auto* integer = std::get_if<std::int64_t>(&from.value)) {
    to = static_cast<double>(*integer);
    return true;
  }
  const auto* number = std::get_if<double>(&from.value);
  if (number == nullptr || !std::isfinite(*number)) return false;
  to = *number;
  return true;
}

template <class T>
bool read(const TomlValue& from, std::vector<T>& to) {
  const auto* list = std::get_if<TomlList>(&from.value);
  if (list == nullptr) {
    T only;
    if (!std::is_same_v<T, std::string> || !read(from, only)) return false;
    to = {only};
    return true;
  }
  std::vector<T> values(list->size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!read((*list)[i], values[i])) return false;
  }
  to = std::move(values);
  return true;
}

// The first element that does not belong is more telling than "a list".
template <class T>
std::string found_for(const TomlValue& from) {
  return found(from);
}
template <class T>
requires requires {
  typename T::value_type;
} &&(!std::is_same_v<T, std::string>)std::string found_for(const TomlValue& from) {
  const auto* list = std::get_if<TomlList>(&from.value);
  if (list == nullptr) return found(from);
  typename T::value_type ignored;
  for (const TomlValue& element : *list) {
    if (!read(element, ignored)) return found(element) + " in the list";
  }
  return found(from);
}

std::string hint(const Slot<std::int64_t>&, const TomlValue& from) {
  const auto* number = std::get_if<double>(&from.value);
  const bool whole = number != nullptr && std::trunc(*number) == *number && std::abs(*number) < 9e15;
  return whole ? ": write " + text_of(static_cast<std::int64_t>(*number)) : "";
}
std::string hint(const Slot<bool>&, const TomlValue& from) {
  const auto* integer = std::get_if<std::int64_t>(&from.value);
  return integer != nullptr && (*integer == 0 || *integer == 1) ? ": write " + text_of(*integer == 1) : "";
}
template <class T>
std::string hint(const Slot<T>&, const TomlValue&) {
  return "";
}

template <class T>
std::string out_of_limit(const Slot<T>& slot, const T& value) {
  std::string text = "expected " + slot.limit.text + ", found " + text_of(value);
  if constexpr (std::is_same_v<T, std::string>) {
    const std::string guess = nearest_word(value, slot.limit.choices);
    if (!guess.empty()) text += "; did you mean " + text_of(guess) + "?";
  }
  return text;
}

template <class T>
std::optional<std::string> assign_to(const Slot<T>& slot, const TomlValue& from) {
  T value;
  if (!read(from, value)) {
    return std::string("expected ") + expected<T> + ", found " + found_for<T>(from) + hint(slot, from);
  }
  if (slot.limit.holds && !slot.limit.holds(value)) return out_of_limit(slot, value);
  *slot.value = std::move(value);
  return {};
}

}  // namespace

std::optional<std::string> assign(const Field& field, const TomlValue& value) {
  return std::visit([&](const auto& slot) { return assign_to(slot, value); }, field.slot);
}

bool holds_string(const Field& field) {
  return std::holds_alternative<Slot<std::string>>(field.slot);
}

}  // namespace trireme
