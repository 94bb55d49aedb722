#include "json_text.h"

#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

// The library's message without its number and without the bytes it read, which may be anything.
std::string shortened(const std::string& message) {
  const std::size_t place = message.find("column "), end = message.find("; last read");
  if (place == std::string::npos) return "no JSON";
  return "no JSON: " + message.substr(place, end == std::string::npos ? end : end - place);
}

// Listens to the parser, so that no tree is built.
class Listener final : public json::json_sax_t {
 public:
  Listener(const std::string& wanted, std::string& text) : wanted_(wanted), text_(text) {}
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!is_wanted_ || depth_ != 1) return other("a string");
    text_ = std::move(value);
    found_ = true;
    is_wanted_ = false;
    return true;
  }
  bool start_object(std::size_t) override { return deeper("an object"); }
  bool start_array(std::size_t) override { return deeper("an array"); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    is_wanted_ = depth_ == 1 && object_ && name == wanted_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    problem_ = shortened(error.what());
    return false;
  }
  std::string problem() const {
    if (!problem_.empty()) return problem_;
    return found_ ? "" : "there is no key \"" + wanted_ + "\"";
  }

 private:
  bool other(const char* what) {
    if (depth_ == 0) problem_ = std::string("it is ") + what + ", expected an object";
    if (is_wanted_) problem_ = "\"" + wanted_ + "\" is " + what + ", expected a string";
    is_wanted_ = false;
    return problem_.empty();
  }
  bool deeper(const char* what) {
    if (depth_ == 0) {
      object_ = std::string_view(what) == "an object";
      if (!object_) return other(what);
    } else if (!other(what)) {
      return false;
    }
    ++depth_;
    return true;
  }

  const std::string& wanted_;
  std::string& text_;
  std::string problem_;
  int depth_ = 0;
  bool object_ = false, is_wanted_ = false, found_ = false;
};

}  // namespace

std::string read_json(std::string_view line, const std::string& key, std::string& text) {
  if (line.find_first_not_of(" \t") == std::string_view::npos) return "the line is empty";
  Listener listener(key, text);
  json::sax_parse(line.begin(), line.end(), &listener);
  return listener.problem();
}
