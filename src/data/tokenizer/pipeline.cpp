#include "pipeline.h"

#include <algorithm>
#include <array>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "utf8.h"

namespace trireme {

namespace {

// Calls emit(part) for the parts of `text` that begin with each k_metaspace; of_runs: with each run of them.
enum class Begin : std::uint8_t { each, of_runs };
template <class Emit>
void split_before_metaspaces(std::string_view text, Begin begin, Emit emit) {
  const std::size_t length = k_metaspace.size();
  std::size_t first = 0;
  for (std::size_t at = text.find(k_metaspace, 1); at != std::string_view::npos; at = text.find(k_metaspace, at + 1)) {
    if (begin == Begin::of_runs && at >= length && text.substr(at - length, length) == k_metaspace) continue;
    emit(text.substr(first, at - first));
    first = at;
  }
  emit(text.substr(first));
}

std::int32_t byte_token(const Vocabulary& vocabulary, unsigned char byte) {
  return vocabulary.find(format("<0x%02X>", byte)).value_or(-1);
}

}  // namespace

struct PipelineTokenizer::Workspace {
  MatchSpace match;
  MergeSpace merge;
  WordCache cache;
  std::string repaired, normal;
  std::array<std::string, 4> cut;  // the changed text of each cutter
};

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {
  require(parts_.cutters.size() <= std::tuple_size_v<decltype(Workspace::cut)>,
          "more cutters than a workspace has room");
  MatchSpace space;
  for (const AddedToken& token : parts_.added) {
    added_.as_is.add(token);
    if (!token.special) ordinary_.as_is.add(token);
  }
  for (AddedToken& token : parts_.added_normalized) {
    normalize(parts_.normalizers, token.text, space);
    added_.normalized.add(token);
    if (!token.special) ordinary_.normalized.add(token);
  }
  id_of_byte_.resize(256, -1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool bytes = parts_.units == Units::bytes;
    id_of_byte_[byte] = bytes ? parts_.vocabulary.find({&c, 1}).value_or(-1)
                              : byte_token(parts_.vocabulary, static_cast<unsigned char>(c));
  }
  cuts_before_metaspace_ = parts_.units == Units::characters && !parts_.whole_words_first && words_are_independent();
}

PipelineTokenizer::~PipelineTokenizer() = default;

// Whether no merge can reach over the place before a k_metaspace that follows another character: then words can be cut
// there without changing the result, and the cache serves texts without spaces.
bool PipelineTokenizer::words_are_independent() const {
  for (std::int32_t id = 0; id < parts_.vocabulary.size(); ++id) {
    const std::string_view token = parts_.vocabulary.token(id);
    for (std::size_t at = token.find(k_metaspace, 1); at != std::string_view::npos;
         at = token.find(k_metaspace, at + 1)) {
      if (at < k_metaspace.size() || token.substr(at - k_metaspace.size(), k_metaspace.size()) != k_metaspace)
        return false;
    }
  }
  return true;
}

std::string_view PipelineTokenizer::piece(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return parts_.pieces[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> PipelineTokenizer::id_of(std::string_view token) const {
  for (const AddedTokens* added : {&added_.as_is, &added_.normalized}) {
    if (const auto id = added->id_of(token)) return id;
  }
  return parts_.vocabulary.find(token);
}

std::string PipelineTokenizer::describe() const {
  return parts_.what + ", " + std::to_string(vocab_size()) + " tokens (" + parts_.files + ")";
}

void PipelineTokenizer::append(std::string_view text, Spelled specials, Ids& ids) const {
  std::unique_ptr<Workspace> space;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      space = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!space) space = std::make_unique<Workspace>();
  encode_text(well_formed(text, space->repaired), specials == Spelled::token ? added_ : ordinary_, *space, ids);
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(space));
}

void PipelineTokenizer::encode_text(std::string_view text, const Added& added, Workspace& space, Ids& ids) const {
  std::int64_t done = 0;
  const auto part = [&](std::int64_t last) {
    const auto first = static_cast<std::size_t>(done);
    encode_rest({text.substr(first, static_cast<std::size_t>(last) - first), done == 0}, added.normalized, space, ids);
  };
  while (const auto found = added.as_is.find(text, done)) {
    part(found->place.first);
    ids.push_back(found->id);
    done = found->place.last;
  }
  part(static_cast<std::int64_t>(text.size()));
}

void PipelineTokenizer::encode_rest(Piece piece, const AddedTokens& added, Workspace& space, Ids& ids) const {
  if (piece.text.empty()) return;
  if (!parts_.normalizers.empty()) {
    space.normal.assign(piece.text);
    normalize(parts_.normalizers, space.normal, space.match);
    piece.text = space.normal;
  }
  const std::string_view text = piece.text;
  std::int64_t done = 0;
  const auto part = [&](std::int64_t last) {
    const auto first = static_cast<std::size_t>(done);
    cut(0, {text.substr(first, static_cast<std::size_t>(last) - first), piece.at_start && done == 0}, space, ids);
  };
  while (const auto found = added.find(text, done)) {
    part(found->place.first);
    ids.push_back(found->id);
    done = found->place.last;
  }
  part(static_cast<std::int64_t>(text.size()));
}

void PipelineTokenizer::cut(std::size_t step, Piece piece, Workspace& space, Ids& ids) const {
  if (piece.text.empty()) return;
  if (step == parts_.cutters.size()) return encode_word(piece.text, space, ids);
  const auto next = [&](Piece part) { cut(step + 1, part, space, ids); };
  const Cutter& cutter = parts_.cutters[step];
  if (const auto* pattern = std::get_if<SplitCutter>(&cutter)) return split(*pattern, piece, space.match, next);
  std::string& changed = space.cut[step];
  if (const auto* metaspace = std::get_if<MetaspaceCutter>(&cutter)) {
    with_metaspaces(*metaspace, piece, changed);
    if (!metaspace->split) return next({changed, piece.at_start});
    return split_before_metaspaces(changed, Begin::each, [&](std::string_view part) {
      next({part, piece.at_start && part.data() == changed.data()});
    });
  }
  changed.clear();
  if (!piece.text.starts_with(' ')) changed += ' ';
  changed += piece.text;
  next({changed, piece.at_start});
}

void PipelineTokenizer::encode_word(std::string_view word, Workspace& space, Ids& ids) const {
  if (cuts_before_metaspace_) {
    split_before_metaspaces(word, Begin::of_runs, [&](std::string_view part) { encode_part(part, space, ids); });
  } else {
    encode_part(word, space, ids);
  }
}

void PipelineTokenizer::encode_part(std::string_view word, Workspace& space, Ids& ids) const {
  const bool cached = word.size() <= WordCache::k_longest;
  if (cached) {
    if (const auto known = space.cache.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
  }
  const std::size_t from = ids.size();
  const auto whole = parts_.whole_words_first ? parts_.vocabulary.find(word) : std::nullopt;
  if (whole) {
    ids.push_back(*whole);
  } else {
    append_units(word, ids);
    merge(parts_.merges, ids, from, space.merge);
  }
  if (cached) space.cache.insert(word, std::span(ids).subspan(from));
}

void PipelineTokenizer::append_units(std::string_view word, Ids& ids) const {
  const std::size_t from = ids.size();
  while (!word.empty()) {
    const std::size_t length = parts_.units == Units::bytes ? 1 : utf8_step(word).length;
    const std::string_view unit = word.substr(0, length);
    const auto id = parts_.units == Units::bytes ? std::optional(id_of_byte_[static_cast<unsigned char>(unit[0])])
                                                 : parts_.vocabulary.find(unit);
    if (id && *id >= 0) {
      ids.push_back(*id);
    } else {
      append_unknown(unit, from, ids);
    }
    word.remove_prefix(length);
  }
}

// `from`: where the ids of this word begin.
void PipelineTokenizer::append_unknown(std::string_view unit, std::size_t from, Ids& ids) const {
  const auto known = [&](char byte) { return id_of_byte_[static_cast<unsigned char>(byte)] >= 0; };
  if (parts_.byte_fallback && std::all_of(unit.begin(), unit.end(), known)) {
    for (const char byte : unit) ids.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
    return;
  }
  if (!parts_.unknown) {
    const std::string what = parts_.units == Units::bytes ? format("byte 0x%02X", static_cast<unsigned char>(unit[0]))
                                                          : "character \"" + std::string(unit) + "\"";
    throw Error(Exit::data, "the tokenizer (" + describe() + ") has no token for the " + what +
                                " and none for unknown ones; use another tokenizer or clean the text");
  }
  const bool fuses = parts_.fuse_unknown && ids.size() > from && ids.back() == *parts_.unknown;
  if (!fuses) ids.push_back(*parts_.unknown);
}

}  // namespace trireme
