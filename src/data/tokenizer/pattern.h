#pragma once
// Regular expressions that cut text into words: PCRE2 with its just-in-time compiler, for well-formed UTF-8. Only what
// means the same in PCRE2 and in the libraries that tokenizers were made with is accepted.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/shape.h"

namespace trireme {

// What matching needs besides the pattern; one per thread, for any pattern.
class MatchSpace {
 public:
  MatchSpace();
  ~MatchSpace();
  MatchSpace(MatchSpace&& other) noexcept;
  MatchSpace& operator=(MatchSpace&&) = delete;

 private:
  friend class Pattern;
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

class Pattern {
 public:
  // `where` names the file and the part of it that holds the expression, for Error(Exit::data).
  Pattern(const std::string& expression, const std::string& where);
  static Pattern literal(const std::string& text);
  ~Pattern();
  Pattern(Pattern&& other) noexcept;
  Pattern& operator=(Pattern&&) = delete;

  // The first match at or behind `from` that is not empty.
  std::optional<Range> find(std::string_view text, std::int64_t from, MatchSpace& space) const;

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// The expression in PCRE2's words: \s as the white space of Unicode. Throws where the meaning would differ.
std::string translated(const std::string& expression, const std::string& where);

}  // namespace trireme
