// From texts and overrides to a checked deck. Problems are collected and thrown together.

#include <filesystem>
#include <map>
#include <set>

#include "assign.h"
#include "contradictions.h"
#include "nearest.h"
#include "toml_text.h"
#include "trireme/base/check.h"
#include "trireme/deck/read.h"
#include "utf8.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

const std::string k_command_line = "command line";

// Where a value was stated: "file:line" or the command line; later statements win.
struct Origin {
  std::string where, file;
};

struct Loader {
  Deck deck;
  FieldList list = list_fields(deck);
  std::vector<std::string> problems;
  std::map<std::string, std::pair<int, std::string>> stated;  // key -> (order, where)
  std::set<std::string> doubtful;                             // keys whose value is not what the user wanted
  int n_statements = 0;
  bool complete = true;  // no text was lost to a syntax error

  void add_source(const DeckSource& source);
  void add_section(const std::string& file, const TomlSection& section);
  void add_override(const std::string& text);
  void add(const Origin& origin, const std::string& section, const std::string& name, const TomlValue& value);
  void add_contradictions(int n_ranks);

  const Field* find(const std::string& section, const std::string& name) const;
  void report(const std::string& where, const std::string& text) { problems.push_back(where + ": " + text); }
  void report_unknown(const std::string& where, const std::string& section, const std::string& name);
  void report_section(const std::string& where, const std::string& name);
  std::string section_names() const;
  std::string key_names(const std::string& section) const;
  std::string origin_of(const std::vector<std::string>& keys) const;
};

const Field* Loader::find(const std::string& section, const std::string& name) const {
  for (const Field& field : list.fields) {
    if (field.section == section && field.name == name) return &field;
  }
  return nullptr;
}

std::string Loader::section_names() const {
  std::string text;
  for (const Section& section : list.sections) text += (text.empty() ? "" : ", ") + section.name;
  return text;
}

std::string Loader::key_names(const std::string& section) const {
  std::string text;
  for (const Field& field : list.fields) {
    if (field.section == section) text += (text.empty() ? "" : ", ") + field.name;
  }
  return text;
}

void Loader::report_unknown(const std::string& where, const std::string& section, const std::string& name) {
  const std::string guess = nearest_key(section, name, list), known = key_names(section);
  std::string text = (section.empty() ? name : section + "." + name) + ": unknown key; ";
  if (!guess.empty()) {
    text += "did you mean " + guess + "?";
  } else if (!known.empty()) {
    text += "[" + section + "] has " + known;
  } else {
    text += "the sections are " + section_names();
  }
  doubtful.insert(guess);
  report(where, text);
}

void resolve(std::string& path, const std::string& base) {
  if (!path.empty()) path = fs::absolute(fs::path(base).parent_path() / path).lexically_normal().string();
}

void resolve(std::vector<std::string>& paths, const std::string& base) {
  for (std::string& path : paths) resolve(path, base);
}

void Loader::add(const Origin& origin, const std::string& section, const std::string& name, const TomlValue& value) {
  const Field* field = find(section, name);
  if (field == nullptr) {
    report_unknown(origin.where, section, name);
    return;
  }
  if (const auto wrong = assign(*field, value)) {
    report(origin.where, field->key() + ": " + *wrong);
    doubtful.insert(field->key());
    return;
  }
  stated[field->key()] = {++n_statements, origin.where};
  if (field->key() == "data.paths") resolve(deck.data.paths, origin.file);
  if (field->key() == "data.validation_paths") resolve(deck.data.validation_paths, origin.file);
  if (field->key() == "data.test_paths") resolve(deck.data.test_paths, origin.file);
  if (field->key() == "data.tokenizer" && deck.data.tokenizer != "byte") resolve(deck.data.tokenizer, origin.file);
}

void Loader::report_section(const std::string& where, const std::string& name) {
  std::vector<std::string> names;
  for (const Section& section : list.sections) names.push_back(section.name);
  const std::string guess = nearest_word(name, names);
  const std::string hint = guess.empty() ? "the sections are " + section_names() : "did you mean [" + guess + "]?";
  report(where, name + ": unknown section; " + hint);
  for (const Field& field : list.fields) {
    if (field.section == guess) doubtful.insert(field.key());
  }
}

void Loader::add_section(const std::string& file, const TomlSection& section) {
  const std::string where = file + ":" + std::to_string(section.line), &name = section.name;
  const bool known = !key_names(name).empty();
  if (name == "include") return;  // read_deck_files has followed it
  if (!known) return section.is_table ? report_section(where, name) : report_unknown(where, "", name);
  if (!section.is_table) {
    return report(where, name + ": expected a section [" + name + "], found " + found(section.entries[0].value));
  }
  for (const TomlEntry& entry : section.entries) {
    add({file + ":" + std::to_string(entry.line), file}, name, entry.name, entry.value);
  }
}

void Loader::add_source(const DeckSource& source) {
  const TomlText parsed = parse_toml(source.text);
  if (!parsed.error.empty()) {
    report(source.file + ":" + std::to_string(parsed.error_line), parsed.error);
    complete = false;
    return;
  }
  for (const TomlSection& section : parsed.sections) add_section(source.file, section);
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

void Loader::add_override(const std::string& text) {
  const std::string form = "expected section.key=value, for example run.steps=100";
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return report(k_command_line, "found \"" + text + "\", " + form);
  const std::string key = trimmed(text.substr(0, equals)), word = trimmed(text.substr(equals + 1));
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    const std::string guess = nearest_key("", key, list);
    return report(k_command_line,
                  "found \"" + text + "\", " + form + (guess.empty() ? "" : "; did you mean " + guess + "?"));
  }
  const std::string section = key.substr(0, dot), name = key.substr(dot + 1);
  const Field* field = find(section, name);
  std::optional<TomlValue> value = parse_toml_value(word);
  if (first_not_utf8(text)) return report(k_command_line, key + ": not UTF-8 text");
  const bool quoted = value && std::holds_alternative<std::string>(value->value);
  if (!value || (field != nullptr && holds_string(*field) && !quoted)) value = TomlValue{word};
  add({k_command_line, ""}, section, name, *value);
}

// The place of the latest statement about any of the keys: what the user touched last is what to look at.
std::string Loader::origin_of(const std::vector<std::string>& keys) const {
  std::pair<int, std::string> latest{-1, "deck"};
  for (const std::string& key : keys) {
    const auto it = stated.find(key);
    if (it != stated.end() && it->second.first >= latest.first) latest = it->second;
  }
  return latest.second;
}

void Loader::add_contradictions(int n_ranks) {
  if (!complete) return;
  for (const Contradiction& contradiction : find_contradictions(deck, n_ranks)) {
    bool sure = true;
    for (const std::string& key : contradiction.keys) sure = sure && doubtful.count(key) == 0;
    if (sure) report(origin_of(contradiction.keys), contradiction.text);
  }
}

void fill_model(ModelDeck& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.hidden % model.heads == 0) model.head_dim = model.hidden / model.heads;
  if (model.ffn != 0) return;
  model.ffn = model.activation == "swiglu" ? round_up(div_up(8 * model.hidden, 3), 64) : 4 * model.hidden;
}

void fill_derived(Deck& deck) {
  fill_model(deck.model);
  if (deck.run.output.empty()) deck.run.output = "runs/" + deck.run.name;
  if (deck.lr.decay == 0) deck.lr.decay = deck.run.steps;
  if (deck.lr.wsd_decay == 0 && deck.lr.shape == "wsd") deck.lr.wsd_decay = div_up(deck.lr.decay, 10);
  if (deck.precision.compute == "fp64") deck.precision.optimizer = "fp64";
  if (deck.data.source == "text" && deck.data.tokenizer.empty()) deck.data.tokenizer = "byte";
  if (deck.data.tokenizer == "byte" && deck.data.eod == -1) deck.data.eod = k_byte_end;
}

void throw_problems(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  throw Error(Exit::usage, text);
}

}  // namespace

Deck parse_deck(const std::vector<DeckSource>& sources, std::span<const std::string> overrides, int n_ranks) {
  Loader loader;
  for (const DeckSource& source : sources) loader.add_source(source);
  for (const std::string& text : overrides) loader.add_override(text);
  fill_derived(loader.deck);
  loader.add_contradictions(n_ranks);
  throw_problems(loader.problems);
  return loader.deck;
}

}  // namespace trireme
