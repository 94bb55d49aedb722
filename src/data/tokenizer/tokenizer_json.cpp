#include <charconv>
#include <filesystem>

#include "byte_characters.h"
#include "json_parts.h"
#include "token_files.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

void refuse_if_set(const JsonPlace& model, const char* key) {
  if (!model.has(key)) return;
  const nlohmann::json& value = model.at(key).value();
  if (value.is_string() && value.get<std::string>().empty()) return;
  if (value.is_number() && value == 0) return;
  model.at(key).refuse("is " + value.dump() + ", which is not known here");
}

// "a b", or ["a", "b"] in newer files.
std::pair<std::string, std::string> merge_of(const JsonPlace& place) {
  const nlohmann::json& value = place.value();
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
    return {value[0].get<std::string>(), value[1].get<std::string>()};
  if (!value.is_string()) place.refuse("is no pair of tokens");
  const auto text = value.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    place.refuse("is \"" + text + "\", expected two tokens with a space between");
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const JsonPlace& place, PipelineParts& parts) {
  std::int32_t rank = 0;
  for (const JsonPlace& one : place.items()) {
    auto [left, right] = merge_of(one);
    if (parts.units == Units::bytes) {
      left = bytes_of_characters(left).value_or(left);
      right = bytes_of_characters(right).value_or(right);
    }
    add_merge(left, right, rank++, place.where(), parts);
  }
}

void read_vocabulary(const JsonPlace& place, PipelineParts& parts) {
  if (parts.units == Units::bytes) return add_byte_level_vocabulary(place.value(), place.where(), parts);
  if (!place.value().is_object()) place.refuse("is no object of tokens and ids");
  for (const auto& [token, id] : place.value().items()) {
    if (!id.is_number_integer()) place.refuse("gives \"" + token + "\" the id " + id.dump() + ", expected an integer");
    parts.vocabulary.add(token, id.get<std::int64_t>(), place.where());
  }
}

void read_model(const JsonPlace& model, PipelineParts& parts) {
  if (model.has("type") && model.type() != "BPE")
    model.refuse("is of type \"" + model.type() + "\", which is not known here; known is BPE");
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) refuse_if_set(model, key);
  read_vocabulary(model.at("vocab"), parts);
  read_merges(model.at("merges"), parts);
  parts.whole_words_first = model.flag("ignore_merges", false);
  parts.byte_fallback = model.flag("byte_fallback", false);
  parts.fuse_unknown = model.flag("fuse_unk", false);
  if (!model.has("unk_token")) return;
  parts.unknown = parts.vocabulary.find(model.text("unk_token"));
  if (!parts.unknown) model.at("unk_token").refuse("\"" + model.text("unk_token") + "\" is not in the vocabulary");
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::optional<std::string> fallback_byte(std::string_view token) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return {};
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return {};
  return std::string(1, static_cast<char>(value));
}

std::string decoded(std::string_view token, const PipelineParts& parts, const Decoding& decoding) {
  std::string text(token);
  if (parts.units == Units::bytes) return text;
  for (const auto& [from, to] : decoding.replaced) replace_all(text, from, to);
  if (decoding.metaspace) replace_all(text, std::string(k_metaspace), " ");
  if (decoding.byte_fallback) return fallback_byte(text).value_or(text);
  return text;
}

void add_added_token(const JsonPlace& place, PipelineParts& parts) {
  place.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  if (place.flag("single_word", false)) place.at("single_word").refuse("is true, which is not known here");
  const JsonPlace id = place.at("id");
  const std::string text = place.text("content");
  if (!id.value().is_number_integer() || id.value() < 0 || id.value() >= 1 << 24)
    id.refuse("is " + id.value().dump() + ", expected an id");
  AddedToken token{text, id.value().get<std::int32_t>(), place.flag("lstrip", false), place.flag("rstrip", false),
                   place.flag("special", false)};
  const auto i = static_cast<std::size_t>(token.id);
  parts.pieces.resize(std::max(parts.pieces.size(), i + 1));
  parts.pieces[i] = text;
  (place.flag("normalized", !token.special) ? parts.added_normalized : parts.added).push_back(std::move(token));
}

void read_steps(const JsonPlace& root, PipelineParts& parts, Decoding& decoding) {
  if (root.has("normalizer")) read_normalizer(root.at("normalizer"), parts.normalizers);
  if (root.has("decoder")) read_decoder(root.at("decoder"), decoding);
  if (root.has("post_processor")) parts.begin_of_document = read_post_processor(root.at("post_processor"));
  PreTokenizer cutters;
  if (root.has("pre_tokenizer")) read_pre_tokenizer(root.at("pre_tokenizer"), cutters);
  if (cutters.byte_level != decoding.byte_level)
    root.at("decoder").refuse(std::string("and the pre-tokenizer do not agree: one is ByteLevel, the other is not"));
  parts.cutters = std::move(cutters.cutters);
  parts.units = cutters.byte_level ? Units::bytes : Units::characters;
  parts.drops_first_space = decoding.drops_first_space;
}

}  // namespace

PipelineParts read_tokenizer_json(const std::string& path) {
  const std::string text = file_text(path);
  const nlohmann::json json = json_of(text, path);
  const JsonPlace root(json, path + ":");
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  for (const char* key : {"truncation", "padding"}) {
    if (root.has(key)) root.at(key).refuse("is set; remove it, texts are neither cut nor padded here");
  }
  PipelineParts parts;
  Decoding decoding;
  read_steps(root, parts, decoding);
  read_model(root.at("model"), parts);
  for (std::int32_t id = 0; id < parts.vocabulary.size(); ++id)
    parts.pieces.push_back(decoded(parts.vocabulary.token(id), parts, decoding));
  if (root.has("added_tokens")) {
    for (const JsonPlace& token : root.at("added_tokens").items()) add_added_token(token, parts);
  }
  for (const auto* added : {&parts.added, &parts.added_normalized}) {
    if (!parts.end_of_document) parts.end_of_document = usual_end(*added);
  }
  parts.what = parts.units == Units::bytes ? "byte-level BPE" : "BPE";
  parts.files = std::filesystem::path(path).filename().string();
  parts.fingerprint = hash_text("tokenizer.json", {text});
  return parts;
}

}  // namespace trireme
