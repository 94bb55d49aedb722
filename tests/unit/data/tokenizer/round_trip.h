#pragma once
// Random text that looks for trouble: characters of every length and kind, runs, combining marks, pieces of words.

#include <random>
#include <string>

#include "data/tokenizer/utf8.h"

namespace trireme {

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}
  std::string next() {
    std::string text;
    for (std::uint64_t n = below(24); n > 0; --n) add(text);
    return text;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  void add(std::string& text) {
    static const char* const known[] = {" ",  "  ",  "\n",  "\r\n", "\t",     "the",     " of",
                                        "'s", "'LL", "ing", "12",   "3456",   "...",     "--",
                                        "_",  "<|",  "|>",  "</s>", "\u00e9", "e\u0301", "\u2581"};
    switch (below(4)) {
      case 0:
        return append_utf8(static_cast<std::uint32_t>(below(128)), text);
      case 1:
        text += known[below(std::size(known))];
        return;
      case 2:
        return append_utf8(static_cast<std::uint32_t>(0x80 + below(0x3000)), text);
      default:
        return append_utf8(anywhere(), text);
    }
  }
  std::uint32_t anywhere() {
    const auto code = static_cast<std::uint32_t>(below(0x110000));
    return code >= 0xD800 && code <= 0xDFFF ? code - 0x800 : code;
  }
  std::mt19937_64 random_;
};

}  // namespace trireme
