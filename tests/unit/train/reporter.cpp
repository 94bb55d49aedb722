#include "trireme/train/reporter.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"

using namespace trireme;
using Catch::Matchers::Contains;

namespace {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string text(const std::string& name) const {
    std::ifstream in(path + "/" + name);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::string path;
};

Deck deck_in(const Folder& folder) {
  Deck deck;
  deck.run.output = folder.path;
  deck.run.steps = 100;
  deck.log.every = 2;
  deck.log.prometheus = folder.path + "/numbers.prom";
  return deck;
}

StepReport step(std::int64_t number, double time) {
  StepReport report;
  report.step = number, report.tokens_in_step = 500, report.tokens = 500 * number;
  report.loss = 2, report.grad_norm = 1, report.time = time;
  return report;
}

}  // namespace

TEST_CASE("reporter: energy is per token and second of the steps since the last line, and reaches every watcher") {
  const Folder folder;
  const Deck deck = deck_in(folder);
  Reporter reporter(deck, Reporter::Voice::speaking, {1, 1}, 0, 1, 0);
  reporter.begin(0, 10);
  StepReport first = step(1, 11), third = step(3, 13), fourth = step(4, 14);
  first.joules = 250;
  fourth.joules = 4000;

  reporter.step(first);
  reporter.step(step(2, 12));
  reporter.step(third);
  reporter.step(fourth);

  CHECK(reporter.due(1));
  CHECK_FALSE(reporter.due(3));
  CHECK_THAT(folder.text("metrics.jsonl"), Contains("\"joules_per_token\":0.5,\"watts\":250"));
  CHECK_THAT(folder.text("metrics.jsonl"), Contains("\"joules_per_token\":4,\"watts\":2000"));
  CHECK_THAT(folder.text("numbers.prom"), Contains("trireme_perf_joules_per_token{run=\"run\"} 4\n"));
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      events = folder.text(entry.path().filename().string());
  }
  CHECK_THAT(events, Contains("perf/joules_per_token") && Contains("perf/watts"));
}

TEST_CASE("reporter: without a meter nothing speaks of energy") {
  const Folder folder;
  const Deck deck = deck_in(folder);
  Reporter reporter(deck, Reporter::Voice::speaking, {1, 1}, 0, 1, 0);
  reporter.begin(0, 10);

  reporter.step(step(1, 11));

  CHECK_THAT(folder.text("metrics.jsonl"), Contains("\"loss\":2") && !Contains("joules"));
  CHECK_THAT(folder.text("numbers.prom"), !Contains("joules"));
}

TEST_CASE("reporter: the file for Prometheus is whole at any time: types, labels, no rest of its making") {
  const Folder folder;
  const Deck deck = deck_in(folder);
  Reporter reporter(deck, Reporter::Voice::speaking, {1, 1}, 0, 1, 0);
  reporter.begin(0, 10);

  reporter.step(step(1, 11));
  reporter.step(step(2, 13));

  std::istringstream lines(folder.text("numbers.prom"));
  int n = 0;
  for (std::string type, value; std::getline(lines, type) && std::getline(lines, value); ++n) {
    const std::string name = value.substr(0, value.find('{'));
    CHECK(type == "# TYPE " + name + " gauge");
    CHECK_THAT(value, Contains("{run=\"run\"} "));
    CHECK(std::isfinite(std::stod(value.substr(value.find("} ") + 2))));
  }
  CHECK(n > 5);
  CHECK_FALSE(std::filesystem::exists(deck.log.prometheus + ".part"));
  CHECK_THAT(folder.text("numbers.prom"), Contains("trireme_step{run=\"run\"} 2\n"));
}
