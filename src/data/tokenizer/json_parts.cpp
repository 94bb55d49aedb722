#include "json_parts.h"

#include "token_files.h"

namespace trireme {

namespace {

Pattern pattern_of(const JsonPlace& place) {
  if (place.has("Regex")) return Pattern(place.text("Regex"), place.where());
  if (!place.has("String")) place.refuse("has neither \"Regex\" nor \"String\"");
  const std::string text = place.text("String");
  if (text.empty()) place.refuse("looks for an empty text");
  return Pattern::literal(text);
}

std::string list_of(std::initializer_list<const char*> names) {
  std::string list;
  for (const char* name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

[[noreturn]] void unknown_type(const JsonPlace& place, std::initializer_list<const char*> known) {
  place.refuse("is of type \"" + place.type() + "\", which is not known here; known are " + list_of(known));
}

Cut cut_of(const JsonPlace& place) {
  const std::string behaviour = place.text("behavior");
  if (behaviour == "Isolated") return Cut::isolated;
  if (behaviour == "Removed") return Cut::removed;
  if (behaviour == "MergedWithPrevious") return Cut::merged_with_previous;
  if (behaviour == "MergedWithNext") return Cut::merged_with_next;
  if (behaviour == "Contiguous") return Cut::contiguous;
  place.at("behavior").refuse("is \"" + behaviour + "\", which is not known here");
}

void check_metaspace(const JsonPlace& place) {
  place.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  if (place.text("replacement") != k_metaspace) place.at("replacement").refuse("is not U+2581");
}

MetaspaceCutter::Before before_of(const JsonPlace& place) {
  using Before = MetaspaceCutter::Before;
  if (!place.has("prepend_scheme")) return place.flag("add_prefix_space", true) ? Before::always : Before::never;
  const std::string scheme = place.text("prepend_scheme");
  if (scheme == "always") return Before::always;
  if (scheme == "first") return Before::first;
  if (scheme == "never") return Before::never;
  place.at("prepend_scheme").refuse("is \"" + scheme + "\", expected always, first or never");
}

void read_byte_level(const JsonPlace& place, PreTokenizer& made) {
  place.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (place.flag("add_prefix_space", true)) made.cutters.emplace_back(PrefixSpaceCutter{});
  if (place.flag("use_regex", true))
    made.cutters.emplace_back(SplitCutter{Pattern(k_gpt2_pattern, place.where()), Cut::isolated, false});
  made.byte_level = true;
}

}  // namespace

void read_normalizer(const JsonPlace& place, std::vector<Normalizer>& normalizers) {
  const std::string type = place.type();
  if (type == "Sequence") {
    place.only({"type", "normalizers"});
    for (const JsonPlace& one : place.at("normalizers").items()) read_normalizer(one, normalizers);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    place.only({"type"});
    using Which = UnicodeForm::Which;
    normalizers.emplace_back(UnicodeForm{type == "NFC"    ? Which::nfc
                                         : type == "NFD"  ? Which::nfd
                                         : type == "NFKC" ? Which::nfkc
                                                          : Which::nfkd});
  } else if (type == "Prepend") {
    place.only({"type", "prepend"});
    normalizers.emplace_back(Prepend{place.text("prepend")});
  } else if (type == "Replace") {
    place.only({"type", "pattern", "content"});
    normalizers.emplace_back(Replace{pattern_of(place.at("pattern")), place.text("content")});
  } else {
    unknown_type(place, {"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace"});
  }
}

void read_pre_tokenizer(const JsonPlace& place, PreTokenizer& made) {
  const std::string type = place.type();
  if (made.byte_level) place.refuse("follows ByteLevel, expected ByteLevel to be the last");
  if (type == "Sequence") {
    place.only({"type", "pretokenizers"});
    for (const JsonPlace& one : place.at("pretokenizers").items()) read_pre_tokenizer(one, made);
  } else if (type == "ByteLevel") {
    read_byte_level(place, made);
  } else if (type == "Split") {
    place.only({"type", "pattern", "behavior", "invert"});
    made.cutters.emplace_back(SplitCutter{pattern_of(place.at("pattern")), cut_of(place), place.flag("invert", false)});
  } else if (type == "Digits") {
    place.only({"type", "individual_digits"});
    const Cut cut = place.flag("individual_digits", false) ? Cut::isolated : Cut::contiguous;
    made.cutters.emplace_back(SplitCutter{Pattern("\\p{N}", place.where()), cut, false});
  } else if (type == "Metaspace") {
    check_metaspace(place);
    made.cutters.emplace_back(MetaspaceCutter{before_of(place), place.flag("split", true)});
  } else {
    unknown_type(place, {"Sequence", "ByteLevel", "Split", "Digits", "Metaspace"});
  }
  if (made.cutters.size() > 4) place.refuse("makes more than four steps");
}

void read_decoder(const JsonPlace& place, Decoding& made) {
  const std::string type = place.type();
  if (type == "Sequence") {
    place.only({"type", "decoders"});
    for (const JsonPlace& one : place.at("decoders").items()) read_decoder(one, made);
  } else if (type == "ByteLevel") {
    made.byte_level = true;
  } else if (type == "ByteFallback") {
    made.byte_fallback = true;
  } else if (type == "Fuse") {
    place.only({"type"});
  } else if (type == "Metaspace") {
    check_metaspace(place);
    made.metaspace = true;
    made.drops_first_space = before_of(place) != MetaspaceCutter::Before::never;
  } else if (type == "Replace") {
    place.only({"type", "pattern", "content"});
    if (place.at("pattern").has("Regex")) place.at("pattern").refuse("is an expression, expected a \"String\"");
    made.replaced.emplace_back(place.at("pattern").text("String"), place.text("content"));
    if (made.replaced.back().first.empty()) place.refuse("replaces an empty text");
  } else if (type == "Strip") {
    place.only({"type", "content", "start", "stop"});
    if (place.text("content") != " " || place.at("start").value() != 1 || place.at("stop").value() != 0)
      place.refuse("is " + place.value().dump() + ", expected one space to be taken from the beginning");
    made.drops_first_space = true;
  } else {
    unknown_type(place, {"Sequence", "ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip"});
  }
}

namespace {

std::optional<std::int32_t> first_of_template(const JsonPlace& place) {
  const auto single = place.at("single").items();
  if (single.empty() || !single.front().has("SpecialToken")) return {};
  const std::string name = single.front().at("SpecialToken").text("id");
  const auto ids = place.at("special_tokens").at(name.c_str()).at("ids").items();
  if (ids.size() != 1 || !ids.front().value().is_number_integer()) return {};
  return ids.front().value().get<std::int32_t>();
}

}  // namespace

std::optional<std::int32_t> read_post_processor(const JsonPlace& place) {
  const std::string type = place.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return first_of_template(place);
  if (type != "Sequence") unknown_type(place, {"Sequence", "ByteLevel", "TemplateProcessing"});
  std::optional<std::int32_t> begin;
  for (const JsonPlace& one : place.at("processors").items()) {
    if (const auto found = read_post_processor(one)) begin = found;
  }
  return begin;
}

}  // namespace trireme
