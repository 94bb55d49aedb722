#include <algorithm>
#include <cstdlib>

#include "trireme/base/log.h"
#include "trireme/train/commands.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"

namespace trireme {

namespace {

DeviceKind planned_kind(const Deck& deck) {
  const bool sixteen = deck.precision.compute == "bf16" || deck.precision.compute == "fp16";
  return deck.device.kind == "cuda" || (deck.device.kind == "auto" && sixteen) ? DeviceKind::cuda : DeviceKind::cpu;
}

std::string row(const std::string& name, const std::vector<std::string>& cells) {
  std::string text = format("%-38s", name.c_str());
  for (const std::string& cell : cells) text += format(" %12s", cell.c_str());
  return text + "\n";
}

template <class F>
std::vector<std::string> cells(const std::vector<RankPlan>& plans, F&& cell) {
  std::vector<std::string> texts;
  for (const RankPlan& plan : plans) texts.push_back(cell(plan));
  return texts;
}

std::string layers_text(const RankPlan& plan) {
  std::int64_t n = 0;
  for (const Range& layers : plan.layers) n += layers.count();
  return std::to_string(n);
}

std::string slots_text(const RankPlan& plan) {
  std::string text;
  for (const int slots : plan.slots) text += (text.empty() ? "" : "+") + std::to_string(slots);
  return text.size() > 12 ? std::to_string(plan.slots.front()) + "+.." : text;
}

std::string traffic_rows(const std::vector<RankPlan>& plans) {
  const auto bytes = [](double b) { return b == 0 ? std::string("-") : bytes_text(b); };
  std::string text = row("  tensor parallel (tp)", cells(plans, [&](const RankPlan& p) { return bytes(p.traffic.along[3]); }));
  text += row("  context ring (cp)", cells(plans, [&](const RankPlan& p) { return bytes(p.traffic.along[2]); }));
  text += row("  gradients and weights (dp, cp)", cells(plans, [&](const RankPlan& p) { return bytes(p.traffic.replicas); }));
  text += row("  pipeline neighbours (pp)", cells(plans, [&](const RankPlan& p) { return bytes(p.pipeline_bytes); }));
  return text + row("  tied embedding", cells(plans, [&](const RankPlan& p) { return bytes(p.traffic.ends); }));
}

}  // namespace

std::string plan_text(const Deck& deck, int n_ranks) {
  const Model model(deck.model);
  const std::array<int, k_n_axes> size = grid_size(deck.parallel, n_ranks);
  std::vector<RankPlan> plans;
  for (int stage = 0; stage < size[0]; ++stage) {
    GridPoint here{size, {stage, 0, 0, 0}};
    plans.push_back(plan_rank(deck, model, here, planned_kind(deck)));
  }
  const ModelFlops flops = flops_per_token(model);
  const double tokens = static_cast<double>(deck.batch.global * deck.model.sequence);
  std::string text = format("%s parameters on %d ranks = %s, %s; per rank (tp 0, cp 0, dp 0) of each stage:\n\n",
                            count_text(static_cast<double>(model.table().n_elements())).c_str(), n_ranks,
                            to_string(plans[0].here).c_str(), deck.precision.compute.c_str());
  int stage = 0;
  text += row("stage", cells(plans, [&](const RankPlan&) { return std::to_string(stage++); }));
  text += row("layers", cells(plans, layers_text));
  text += row("micro-batches in flight per chunk", cells(plans, slots_text));
  text += row("parameters", cells(plans, [](const RankPlan& p) { return count_text(static_cast<double>(p.n_params)); }));
  text += row("memory", cells(plans, [](const RankPlan& p) { return bytes_text(static_cast<double>(p.total())); }));
  for (std::size_t i = 0; i < plans[0].memory.size(); ++i) {
    text += row("  " + plans[0].memory[i].first,
                cells(plans, [&](const RankPlan& p) { return bytes_text(static_cast<double>(p.memory[i].second)); }));
  }
  text += row("FLOPs per step", cells(plans, [](const RankPlan& p) {
                return count_text(p.flops.matmul_flops + p.flops.attention_flops);
              }));
  text += "bytes sent per step\n" + traffic_rows(plans);
  double most = 0;
  for (const RankPlan& plan : plans) most = std::max(most, plan.flops.matmul_flops + plan.flops.attention_flops);
  const double n_micro = static_cast<double>(deck.batch.global / (deck.batch.micro * size[1]));
  const double bubble = (size[0] - 1) / (static_cast<double>(deck.parallel.virtual_stages) * n_micro);
  text += format("\ntokens per step %s; model FLOPs per token %s causal, %s with full attention; pipeline bubble %.1f %%\n",
                 count_text(tokens).c_str(), count_text(flops.causal).c_str(), count_text(flops.full).c_str(),
                 100 * bubble / (1 + bubble));
  text += "step time of the busiest stage, bubble included, communication hidden:\n";
  for (const double rate : {300e12, 500e12, 700e12}) {
    const double seconds = most / rate * (1 + bubble);
    text += format("  at %3.0f TFLOP/s per rank %10s  %12s tok/s\n", rate / 1e12, time_text(seconds).c_str(),
                   count_text(tokens / seconds).c_str());
  }
  return text;
}

}  // namespace trireme
