#include "steps.h"

#include <utf8proc.h>

#include <cstdlib>

#include "trireme/base/check.h"
#include "utf8.h"

namespace trireme {

namespace {

utf8proc_option_t options_of(UnicodeForm::Which which) {
  switch (which) {
    case UnicodeForm::Which::nfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case UnicodeForm::Which::nfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case UnicodeForm::Which::nfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::Which::nfkd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  return UTF8PROC_NULLTERM;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

void apply(const UnicodeForm& form, std::string& text, MatchSpace&) {
  if (is_ascii(text)) return;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form.which));
  if (n < 0) throw Error(Exit::data, std::string("Unicode normalization: ") + utf8proc_errmsg(n));
  text.assign(reinterpret_cast<const char*>(made), static_cast<std::size_t>(n));
  std::free(made);  // utf8proc allocates with malloc
}

void apply(const Prepend& prepend, std::string& text, MatchSpace&) {
  if (!text.empty()) text.insert(0, prepend.text);
}

void apply(const Replace& replace, std::string& text, MatchSpace& space) {
  std::string made;
  std::int64_t done = 0;
  while (const auto match = replace.pattern.find(text, done, space)) {
    made.append(text, static_cast<std::size_t>(done), static_cast<std::size_t>(match->first - done));
    made += replace.text;
    done = match->last;
  }
  if (done == 0) return;
  made.append(text, static_cast<std::size_t>(done));
  text = std::move(made);
}

}  // namespace

void normalize(const std::vector<Normalizer>& normalizers, std::string& text, MatchSpace& space) {
  for (const Normalizer& normalizer : normalizers) {
    std::visit([&](const auto& one) { apply(one, text, space); }, normalizer);
  }
}

void with_metaspaces(const MetaspaceCutter& cutter, Piece piece, std::string& storage) {
  using Before = MetaspaceCutter::Before;
  const bool wants = cutter.before == Before::always || (cutter.before == Before::first && piece.at_start);
  const bool has = piece.text.starts_with(' ') || piece.text.starts_with(k_metaspace);
  storage.assign(wants && !has ? k_metaspace : std::string_view());
  for (const char c : piece.text) {
    if (c == ' ') {
      storage += k_metaspace;
    } else {
      storage += c;
    }
  }
}

}  // namespace trireme
