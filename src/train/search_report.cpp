#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/log.h"
#include "trireme/train/search.h"

namespace trireme {

namespace {

constexpr double k_gib = 1073741824.0;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string row(std::size_t number, const FoundLayout& found) {
  const ParallelDeck& p = found.deck.parallel;
  const Prediction& r = found.prediction;
  return format("%4zu %4lld %4lld %4lld %5lld %4lld%s %6lld %10s %8.1f %9.1f %9.0f %7.1f %8.1f %6.1f\n", number,
                static_cast<long long>(p.tensor), static_cast<long long>(p.pipeline), static_cast<long long>(p.context),
                static_cast<long long>(p.data), static_cast<long long>(p.virtual_stages),
                p.stage_layers.empty() ? " " : "*", static_cast<long long>(found.deck.batch.micro), p.recompute.c_str(),
                r.memory / k_gib, 1e3 * r.step, r.tokens_per_second, 100 * r.bubble, 100 * r.exposed, 100 * r.mfu);
}

std::vector<std::pair<std::string, std::int64_t>> by_count(const SearchResult& result) {
  std::vector<std::pair<std::string, std::int64_t>> list(result.failed.begin(), result.failed.end());
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

nlohmann::ordered_json json_of(const FoundLayout& found) {
  const ParallelDeck& p = found.deck.parallel;
  const Prediction& r = found.prediction;
  return {{"tensor", p.tensor},
          {"pipeline", p.pipeline},
          {"context", p.context},
          {"data", p.data},
          {"virtual_stages", p.virtual_stages},
          {"stage_layers", p.stage_layers},
          {"micro", found.deck.batch.micro},
          {"recompute", p.recompute},
          {"memory_gib", r.memory / k_gib},
          {"fullest_stage", r.fullest},
          {"largest_item", r.largest},
          {"step_s", r.step},
          {"tokens_per_s_rank", r.tokens_per_second},
          {"bubble", r.bubble},
          {"exposed", r.exposed},
          {"tflops_causal", r.flops / 1e12},
          {"mfu", r.mfu},
          {"overrides", found.overrides}};
}

}  // namespace

std::string search_text(const SearchResult& result, const Machine& machine, const SearchSettings& settings,
                        int n_best) {
  std::string text = format("%lld layouts on %d ranks, %zu fit into %.1f GiB; times by the table of %s (%s)\n",
                            static_cast<long long>(result.n_looked_at), settings.n_ranks, result.layouts.size(),
                            machine.memory / k_gib, machine.name.c_str(), machine.file.c_str());
  const std::size_t n = std::min(result.layouts.size(), static_cast<std::size_t>(std::max(0, n_best)));
  if (n > 0) {
    text +=
        "\n   #   tp   pp   cp    dp   v   micro  recompute      GiB   step ms  tok/s/gpu bubble% exposed%   mfu%\n";
    bool stated = false;
    for (std::size_t i = 0; i < n; ++i) {
      text += row(i + 1, result.layouts[i]);
      stated = stated || !result.layouts[i].deck.parallel.stage_layers.empty();
    }
    if (stated) text += "* chunks of layers that balance the LM head: parallel.stage_layers, see --json\n";
    text += "\nOverrides of the first:\n  " + joined(result.layouts.front().overrides) + "\n";
  }
  text += n == 0 ? "\nNo layout fits:\n" : "\nOthers fail:\n";
  for (const auto& [reason, count] : by_count(result))
    text += format("%7lld  %s\n", static_cast<long long>(count), reason.c_str());
  return text;
}

std::string search_json(const SearchResult& result, const Machine& machine, const SearchSettings& settings,
                        int n_best) {
  nlohmann::ordered_json json = {{"ranks", settings.n_ranks},
                                 {"machine", machine.name},
                                 {"memory_gib", machine.memory / k_gib},
                                 {"looked_at", result.n_looked_at},
                                 {"fit", result.layouts.size()},
                                 {"layouts", nlohmann::ordered_json::array()},
                                 {"failed", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < result.layouts.size() && static_cast<int>(i) < n_best; ++i)
    json["layouts"].push_back(json_of(result.layouts[i]));
  for (const auto& [reason, count] : by_count(result))
    json["failed"].push_back({{"reason", reason}, {"layouts", count}});
  return json.dump(2) + "\n";
}

}  // namespace trireme
