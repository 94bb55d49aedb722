#pragma once
// What happens to text before it meets the merges: normalizers change it, cutters cut it into words. Each is one part
// of a Hugging Face tokenizer.json; they know neither tokens nor ids.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pattern.h"

namespace trireme {

inline constexpr std::string_view k_metaspace = "\xE2\x96\x81";  // U+2581, which stands for a space in words

// --- normalizers ---
struct UnicodeForm {
  enum class Which { nfc, nfd, nfkc, nfkd } which;
};
struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string text;
};
using Normalizer = std::variant<UnicodeForm, Prepend, Replace>;
void normalize(const std::vector<Normalizer>& normalizers, std::string& text, MatchSpace& space);

// --- cutters ---
enum class Cut { isolated, removed, merged_with_previous, merged_with_next, contiguous };
struct SplitCutter {
  Pattern pattern;
  Cut cut;
  bool inverted;
};
struct PrefixSpaceCutter {};  // a space before a piece that begins with none
struct MetaspaceCutter {      // spaces to k_metaspace; one before the first piece, or before all
  enum class Before { always, first, never } before;
  bool split;
};
using Cutter = std::variant<SplitCutter, PrefixSpaceCutter, MetaspaceCutter>;

struct Piece {
  std::string_view text;
  bool at_start;  // of the whole text
};

// Calls emit(Piece) for every part of `piece`; the parts live until the next call with the same storage.
template <class Emit>
void split(const SplitCutter& cutter, Piece piece, MatchSpace& space, Emit emit);
void with_metaspaces(const MetaspaceCutter& cutter, Piece piece, std::string& storage);

template <class Emit>
void split(const SplitCutter& cutter, Piece piece, MatchSpace& space, Emit emit) {
  // Alternating parts: between two matches, match, ... `pending` is the beginning of what is not emitted yet.
  std::int64_t pending = 0, at = 0;
  bool pending_kind = false;  // whether what is pending ends with a match
  const auto n = static_cast<std::int64_t>(piece.text.size());
  const auto out = [&](std::int64_t first, std::int64_t last) {
    if (first == last) return;
    emit(Piece{piece.text.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
               piece.at_start && first == 0});
  };
  const auto part = [&](std::int64_t first, std::int64_t last, bool matched) {
    if (first == last) return;
    const bool is = matched != cutter.inverted, before = pending_kind;
    pending_kind = is;
    switch (cutter.cut) {
      case Cut::isolated:
        return out(first, last);
      case Cut::removed:
        return is ? void() : out(first, last);
      case Cut::contiguous:
        if (first > pending && is != before) {
          out(pending, first);
          pending = first;
        }
        return;
      case Cut::merged_with_previous:  // a match ends what is pending
        if (first > pending && (!is || before)) {
          out(pending, first);
          pending = first;
        }
        return;
      case Cut::merged_with_next:  // a match begins something
        if (first > pending && (is || !before)) {
          out(pending, first);
          pending = first;
        }
        return;
    }
  };
  while (at < n) {
    const auto match = cutter.pattern.find(piece.text, at, space);
    part(at, match ? match->first : n, false);
    if (match) part(match->first, match->last, true);
    at = match ? match->last : n;
  }
  if (cutter.cut != Cut::isolated && cutter.cut != Cut::removed) out(pending, n);
}

}  // namespace trireme
