#pragma once
// Values as TOML text that reads back to the same value. It does not know keys or sections.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

std::string text_of(bool value);
std::string text_of(std::int64_t value);
std::string text_of(double value);  // the shortest digits that read back, always with a point or an exponent
std::string text_of(const std::string& value);
std::string text_of(const std::vector<std::int64_t>& values);
std::string text_of(const std::vector<double>& values);
std::string text_of(const std::vector<std::string>& values);

// "model.heads = 12", as messages quote a setting.
template <class T>
std::string setting(const char* key, const T& value) {
  return std::string(key) + " = " + text_of(value);
}

}  // namespace trireme
