#include "trireme/train/saver.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/version.h"
#include "trireme/deck/read.h"
#include "trireme/train/start_up.h"
#include "trireme/train/stop.h"

namespace trireme {

Saver::Saver(const Deck& deck, const MpiSession& session, const Job& job, Engine& engine, Reporter& reporter,
             std::string data)
    : deck_(deck),
      session_(session),
      job_(job),
      engine_(engine),
      reporter_(reporter),
      data_(std::move(data)),
      folder_(deck.run.output + "/checkpoints") {}

// --- resuming

std::optional<Progress> Saver::resume() {
  if (deck_.run.resume == "never") return std::nullopt;
  std::string path = deck_.run.resume;
  if (path == "auto") {
    std::vector<std::string> complaints;
    if (rank0()) path = find_latest(folder_, &complaints).value_or("");
    for (const std::string& complaint : complaints) log().warn("passed over: " + complaint);
    path = session_.broadcast(rank0() ? path : "");
    if (path.empty()) return std::nullopt;
  }
  return load(path, deck_.run.weights_only && deck_.run.resume != "auto" ? Contents::weights : Contents::all);
}

std::optional<Progress> Saver::load(const std::string& path, Contents contents) {
  const double start = wall_seconds();
  Attributes attributes;
  together(session_, [&] { attributes = read_attributes(path); });
  check_model(attributes, path);
  if (contents == Contents::all) check_data(attributes, path);
  together(session_, [&] { load_checkpoint(path, everything(engine_, contents), *job_.control, *job_.backend); });
  if (contents == Contents::weights) {
    engine_.optimizer().masters_from_weights();
    log().info("weights from " + path);
    return std::nullopt;
  }
  const Progress progress = progress_from(attributes, path);
  saved_step_ = progress.step;
  log().info(format("resumed from %s: step %lld, %s tokens, written on %s (%.2f s)", path.c_str(),
                    static_cast<long long>(progress.step), count_text(static_cast<double>(progress.tokens)).c_str(),
                    attributes.count("grid") ? attributes.at("grid").c_str() : "an unknown grid",
                    wall_seconds() - start));
  return progress;
}

void Saver::check_data(const Attributes& attributes, const std::string& path) const {
  const auto data = attributes.find("data");
  if (data == attributes.end() || data->second == data_ || deck_.data.accept_change) return;
  throw SharedError(Exit::data, path + " was trained on other data (fingerprint " + data->second + ", now " + data_ +
                                    "): restore data.paths, or set data.accept_change = true "
                                    "to go on at the same position, or run.weights_only = true to start anew from its "
                                    "weights");
}

void Saver::check_model(const Attributes& attributes, const std::string& path) const {
  const auto text = attributes.find("deck");
  if (text == attributes.end()) return;
  const Deck there = parse_deck({{path + " (deck)", text->second}}, {}, 0);
  const std::vector<std::string> sections = {"model", "precision"};
  std::string fatal;
  for (const std::string& difference : differences(deck_, there, sections)) {
    const std::string key = difference.substr(0, difference.find(':'));
    if (changes_the_model(key))
      fatal += "\n  " + difference;
    else
      log().warn("resuming with another setting: " + difference);
  }
  if (!fatal.empty())
    throw SharedError(Exit::data, path + " holds another model (here: this deck, there: the checkpoint):" + fatal);
}

// --- saving

Attributes Saver::attributes_of(const Progress& progress) const {
  Attributes attributes = to_attributes(progress);
  attributes["deck"] = print_deck(deck_);
  attributes["seed"] = std::to_string(deck_.run.seed);
  attributes["grid"] = to_string(job_.grid->here());
  attributes["data"] = data_;
  attributes["git_revision"] = git_revision();
  return attributes;
}

void Saver::save(const Progress& progress) {
  const double start = wall_seconds();
  job_.backend->synchronize();
  const std::string name = checkpoint_name(progress.step), path = folder_ + "/" + name;
  together(session_, [&] {
    save_checkpoint(path, everything(engine_, Contents::all), attributes_of(progress), *job_.control, *job_.backend);
  });
  if (rank0()) set_latest(folder_, name);
  if (rank0()) retire_old(folder_, deck_.checkpoint.keep);
  saved_step_ = progress.step;
  longest_ = std::max(longest_, wall_seconds() - start);
  reporter_.event(progress.step, "saved", format("saved %s (%.2f s)", path.c_str(), wall_seconds() - start));
}

}  // namespace trireme
