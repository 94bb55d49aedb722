#include "data/tokenizer/utf8.h"

#include "catch.h"

namespace trireme {

namespace {

std::string repaired(std::string_view text) {
  std::string storage;
  return std::string(well_formed(text, storage));
}

const std::string k_bad = "\xEF\xBF\xBD";

}  // namespace

TEST_CASE("well-formed text is handed through without a copy") {
  std::string storage;
  const std::string text = "long enough for words of eight bytes \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82 end";

  CHECK(well_formed(text, storage).data() == text.data());
}

TEST_CASE("each ill-formed part becomes one replacement character, as Python counts them") {
  CHECK(repaired("a\xFF"
                 "b") == "a" + k_bad + "b");
  CHECK(repaired("\xC0\x80") == k_bad + k_bad);              // overlong
  CHECK(repaired("\xED\xA0\x80") == k_bad + k_bad + k_bad);  // surrogate
  CHECK(repaired("\xE2\x82") == k_bad);                      // cut at the end
  CHECK(repaired("\xE2\x82z") == k_bad + "z");               // cut inside
  CHECK(repaired("\xF0\x9F\x99\x82\x82") == "\xF0\x9F\x99\x82" + k_bad);
  CHECK(repaired("\xF4\x90\x80\x80") == k_bad + k_bad + k_bad + k_bad);  // above U+10FFFF
  CHECK(repaired("\xF5") == k_bad);
}

TEST_CASE("every code point survives writing and reading") {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(code, text);
    const Utf8Step step = utf8_step(text);
    if (step.what != Utf8::character || step.length != text.size() || code_point(text) != code) FAIL(code);
  }
  SUCCEED();
}

}  // namespace trireme
