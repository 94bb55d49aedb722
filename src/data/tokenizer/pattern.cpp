#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "trireme/base/check.h"

namespace trireme {

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& expression, const std::string& why) {
  throw Error(Exit::data, where + ": the expression " + expression + " " + why);
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// White space as Unicode defines it; PCRE2's own \s also takes U+180E.
constexpr const char* k_space = R"(\t-\r\x{85}\p{Z})";

}  // namespace

struct MatchSpace::Handles {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);
  Handles() {
    require(data != nullptr && context != nullptr, "no memory for PCRE2");
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Handles() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Handles(const Handles&) = delete;
};

MatchSpace::MatchSpace() : handles_(std::make_unique<Handles>()) {}
MatchSpace::~MatchSpace() = default;
MatchSpace::MatchSpace(MatchSpace&& other) noexcept = default;

struct Pattern::Code {
  pcre2_code* code;
  std::string expression;
  Code(const std::string& pcre, std::uint32_t options, const std::string& shown, const std::string& where)
      : code(nullptr), expression(shown) {
    int error = 0;
    PCRE2_SIZE place = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pcre.data()), pcre.size(), options | PCRE2_UTF, &error, &place,
                         nullptr);
    if (code == nullptr) refuse(where, shown, "is not understood: " + message_of(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no compiler, the interpreter gives the same matches
  }
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
};

Pattern::Pattern(const std::string& expression, const std::string& where)
    : Pattern(std::make_unique<Code>(translated(expression, where), PCRE2_UCP, expression, where)) {}
Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&& other) noexcept = default;

Pattern Pattern::literal(const std::string& text) {
  return Pattern(std::make_unique<Code>(text, PCRE2_LITERAL, text, "text"));
}

std::optional<Range> Pattern::find(std::string_view text, std::int64_t from, MatchSpace& space) const {
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       static_cast<PCRE2_SIZE>(from), options | PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                       space.handles_->data, space.handles_->context);
  };
  int found = match(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return {};
  if (found < 0) refuse("tokenizer", code_->expression, "failed on a text: " + message_of(found));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(space.handles_->data);
  return Range{static_cast<std::int64_t>(ends[0]), static_cast<std::int64_t>(ends[1])};
}

namespace {

// Walks an expression and copies it, part by part.
class Translator {
 public:
  Translator(const std::string& expression, const std::string& where) : in_(expression), where_(where) {}
  std::string run() {
    while (i_ < in_.size()) step();
    if (in_class_) refuse(where_, in_, "has a [ without its ]");
    return out_;
  }

 private:
  void step();
  void escape();
  void property();
  void group();
  void copy(std::size_t n) {
    out_.append(in_, i_, n);
    i_ += n;
  }
  [[noreturn]] void unknown(const std::string& part) const {
    refuse(where_, in_, "uses " + part + ", which does not mean the same everywhere or is not known here");
  }

  const std::string& in_;
  const std::string& where_;
  std::string out_;
  std::size_t i_ = 0;
  bool in_class_ = false;
};

void Translator::step() {
  const char c = in_[i_];
  if (c == '\\') return escape();
  if (in_class_) {
    if (c == '[') unknown("[ inside a class");
    if (in_.compare(i_, 2, "&&") == 0) unknown("&& inside a class");
    if (c == ']') in_class_ = false;
    return copy(1);
  }
  if (c == '^' || c == '$') unknown(std::string("the anchor ") + c);
  if (c == '(') return group();
  if (c != '[') return copy(1);
  in_class_ = true;
  copy(in_.compare(i_, 2, "[^") == 0 ? 2 : 1);
  if (i_ < in_.size() && in_[i_] == ']') unknown("] as the first character of a class");
}

// Groups without names and numbers of their own use, lookahead, and flags "i".
void Translator::group() {
  for (const char* known : {"(?i:", "(?:", "(?=", "(?!", "(?i)", "(?<!", "(?<="}) {
    const std::string_view text(known);
    if (in_.compare(i_, text.size(), text) == 0) return copy(text.size());
  }
  if (in_.compare(i_, 2, "(?") == 0 || in_.compare(i_, 2, "(*") == 0) unknown(in_.substr(i_, 4));
  out_ += "(?:";
  ++i_;
}

void Translator::escape() {
  if (i_ + 1 >= in_.size()) refuse(where_, in_, "ends with a backslash");
  const char c = in_[i_ + 1];
  if (c == 'p' || c == 'P') return property();
  if (c == 's' || c == 'S') {
    if (in_class_ && c == 'S') unknown("\\S inside a class");
    out_ += in_class_ ? k_space : (c == 's' ? "[" : "[^") + std::string(k_space) + "]";
    i_ += 2;
    return;
  }
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (letter && std::string_view("rntfdz").find(c) == std::string_view::npos) unknown(in_.substr(i_, 2));
  copy(2);
}

// \p{L}, \p{Lu}, \pL, \p{^L}: general categories; scripts and other properties differ between libraries.
void Translator::property() {
  const std::size_t close = in_.find('}', i_);
  if (in_.compare(i_ + 2, 1, "{") != 0 || close == std::string::npos) unknown(in_.substr(i_, 3));
  std::string name = in_.substr(i_ + 3, close - i_ - 3);
  if (name == "Letter") name = "L";
  if (name == "Number") name = "N";
  constexpr std::string_view k_categories =
      " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn Cs ";
  if (k_categories.find(" " + name + " ") == std::string_view::npos) unknown(in_.substr(i_, close + 1 - i_));
  out_ += in_.substr(i_, 2) + "{" + name + "}";
  i_ = close + 1;
}

}  // namespace

std::string translated(const std::string& expression, const std::string& where) {
  return Translator(expression, where).run();
}

}  // namespace trireme
