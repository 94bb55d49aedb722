#include "data/tokenizer/steps.h"

#include "../help.h"
#include "catch.h"
#include "data/tokenizer/word_cache.h"

namespace trireme {

using Catch::Matchers::Contains;
using Parts = std::vector<std::string>;

namespace {

Parts parts_of(Cut cut, bool inverted, const std::string& text) {
  MatchSpace space;
  Parts parts;
  split(SplitCutter{Pattern("-", "t"), cut, inverted}, Piece{text, true}, space,
        [&](Piece part) { parts.emplace_back(part.text); });
  return parts;
}

std::string first_match(const std::string& expression, const std::string& text) {
  MatchSpace space;
  const auto match = Pattern(expression, "t").find(text, 0, space);
  return match ? text.substr(static_cast<std::size_t>(match->first), static_cast<std::size_t>(match->count())) : "none";
}

}  // namespace

TEST_CASE("a split does with its matches what its behaviour says") {
  // What Hugging Face gives for Split(Regex("-"), behaviour, invert).
  const std::string text = "a--bc-";
  CHECK(parts_of(Cut::isolated, false, text) == Parts{"a", "-", "-", "bc", "-"});
  CHECK(parts_of(Cut::removed, false, text) == Parts{"a", "bc"});
  CHECK(parts_of(Cut::merged_with_previous, false, text) == Parts{"a-", "-", "bc-"});
  CHECK(parts_of(Cut::merged_with_next, false, text) == Parts{"a", "-", "-bc", "-"});
  CHECK(parts_of(Cut::contiguous, false, text) == Parts{"a", "--", "bc", "-"});
  CHECK(parts_of(Cut::removed, true, text) == Parts{"-", "-", "-"});
}

TEST_CASE("white space is that of Unicode") {
  CHECK(first_match("\\s+", "a\xC2\x85\xC2\xA0\xE3\x80\x80z") == "\xC2\x85\xC2\xA0\xE3\x80\x80");
  CHECK(first_match("\\s", "\xE1\xA0\x8E") == "none");  // U+180E is none since Unicode 6.3
  CHECK(first_match("\\S", "\xE1\xA0\x8E") == "\xE1\xA0\x8E");
  CHECK(first_match("[^\\s]", " \xE1\xA0\x8E") == "\xE1\xA0\x8E");
}

TEST_CASE("expressions that mean something else elsewhere are refused by name") {
  for (const char* expression : {"\\w", "\\b", "^a", "a$", "[[:alpha:]]", "[a&&b]", "\\p{Han}", "\\p{Script=Greek}",
                                 "\\h", "(?<name>a)", "(?m:a)", "(*UCP)", "[\\S]", "\\1", "[]a]", "a\\"}) {
    INFO(expression);
    CHECK_THAT(error_of([&] { Pattern(expression, "file: place"); }),
               Contains("3: file: place") && Contains(expression));
  }
}

TEST_CASE("the word cache keeps words apart and survives being full") {
  WordCache cache;
  for (std::int32_t i = 0; i < 1200000; ++i) {
    const std::string word = std::to_string(i * std::int64_t{7919});
    const Ids ids(static_cast<std::size_t>(i % 3), i);
    if (!cache.find(word)) cache.insert(word, ids);
  }
  const std::string last = std::to_string(1199999 * std::int64_t{7919});

  const auto found = cache.find(last);

  REQUIRE(found.has_value());
  CHECK(Ids(found->begin(), found->end()) == Ids(1199999 % 3, 1199999));
  CHECK_FALSE(cache.find("no number").has_value());
  CHECK_FALSE(cache.find("").has_value());
}

}  // namespace trireme
