#include <algorithm>
#include <functional>

#include "trireme/base/log.h"
#include "trireme/train/commands.h"
#include "trireme/train/fp8_weights.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/predict.h"

namespace trireme {

namespace {

// A table with one line per stage; equal neighbours share a line ("1-14").
struct Column {
  std::string title;
  std::function<std::string(const RankPlan&)> cell;
};

std::string table(const std::vector<RankPlan>& plans, const std::vector<Column>& columns) {
  const auto cells = [&](const RankPlan& plan) {
    std::string text;
    for (const Column& column : columns) text += format(" %12s", column.cell(plan).c_str());
    return text;
  };
  std::string text = "stage    ";
  for (const Column& column : columns) text += format(" %12s", column.title.c_str());
  text += "\n";
  for (std::size_t first = 0; first < plans.size();) {
    std::size_t last = first;
    while (last + 1 < plans.size() && cells(plans[last + 1]) == cells(plans[first])) ++last;
    const std::string name = first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
    text += format("%-9s", name.c_str()) + cells(plans[first]) + "\n";
    first = last + 1;
  }
  return text;
}

std::string layers_text(const RankPlan& plan) {
  std::int64_t n = 0;
  for (const Range& layers : plan.layers) n += layers.count();
  return std::to_string(n);
}

std::string slots_text(const RankPlan& plan) {
  std::string text;
  for (const int slots : plan.slots) {
    if (!text.empty()) text += '+';
    text += std::to_string(slots);
  }
  return text.size() > 12 ? std::to_string(plan.slots.front()) + "+.." : text;
}

std::string bytes_or_dash(double bytes) {
  return bytes == 0 ? "-" : bytes_text(bytes);
}

double flops_of(const RankPlan& plan) {
  return plan.flops.matmul_flops + plan.flops.attention_flops;
}

// "fp8 weights" and "inside MPI" are short enough.
std::string first_word(const std::string& purpose) {
  return purpose.size() <= 11 ? purpose : purpose.substr(0, purpose.find_first_of(" ,"));
}

std::string memory_table(const std::vector<RankPlan>& plans) {
  std::vector<Column> columns = {{"layers", layers_text}, {"in flight", slots_text}};
  columns.push_back({"parameters", [](const RankPlan& p) { return count_text(static_cast<double>(p.n_params)); }});
  for (std::size_t i = 0; i < plans[0].memory.size(); ++i) {
    columns.push_back({first_word(plans[0].memory[i].first),
                       [i](const RankPlan& p) { return bytes_text(static_cast<double>(p.memory[i].second)); }});
  }
  columns.push_back({"in all", [](const RankPlan& p) { return bytes_text(static_cast<double>(p.total())); }});
  return table(plans, columns);
}

std::string work_table(const std::vector<RankPlan>& plans) {
  return table(plans, {{"FLOPs", [](const RankPlan& p) { return count_text(flops_of(p)); }},
                       {"tp", [](const RankPlan& p) { return bytes_or_dash(p.traffic.along[3]); }},
                       {"cp", [](const RankPlan& p) { return bytes_or_dash(p.traffic.along[2]); }},
                       {"dp and cp", [](const RankPlan& p) { return bytes_or_dash(p.traffic.replicas); }},
                       {"pp", [](const RankPlan& p) { return bytes_or_dash(p.pipeline_bytes); }},
                       {"tied ends", [](const RankPlan& p) { return bytes_or_dash(p.traffic.ends); }}});
}

// Where the time of the busiest kind of stage goes; messages between stages are in the bubble.
std::string prediction_text(const Prediction& p, const Machine& machine) {
  std::string text =
      format("predicted by the table of %s (%s): step %.1f ms, %s tok/s per rank, %.1f TFLOP/s causal (%.1f %%)\n",
             machine.name.c_str(), machine.file.c_str(), 1e3 * p.step, count_text(p.tokens_per_second).c_str(),
             p.flops / 1e12, 100 * p.mfu);
  text += format(
      "  of it %.1f %% waiting for other stages, %.1f %% for other messages; %s on stage %d of %s, %s for driver and "
      "libraries included\n",
      100 * p.bubble, 100 * p.exposed, bytes_text(p.memory).c_str(), p.fullest, bytes_text(machine.memory).c_str(),
      bytes_text(machine.reserve).c_str());
  if (p.memory > machine.memory)
    text += "  this does not fit: use less batch.micro, parallel.recompute or more ranks, or trireme plan --search\n";
  return text;
}

std::string rates_text(double flops, double bubble, double tokens) {
  std::string text = "step time if the busiest stage computes at a given rate and all communication is hidden:\n";
  for (const double rate : {300e12, 500e12, 700e12}) {
    const double seconds = flops / rate * (1 + bubble);
    text += format("  at %3.0f TFLOP/s per rank %10s  %12s tok/s\n", rate / 1e12, time_text(seconds).c_str(),
                   count_text(tokens / seconds).c_str());
  }
  return text;
}

}  // namespace

DeviceKind planned_kind(const Deck& deck) {
  const bool narrow = dtype_from(deck.precision.compute) == DType::bf16 || deck.precision.compute == "fp16";
  return deck.device.kind == "cuda" || (deck.device.kind == "auto" && narrow) ? DeviceKind::cuda : DeviceKind::cpu;
}

std::string plan_text(const Deck& deck, int n_ranks, const Machine* machine) {
  const Model model(deck.model);
  const std::array<int, k_n_axes> size = grid_size(deck.parallel, n_ranks);
  std::vector<RankPlan> plans;
  for (int stage = 0; stage < size[0]; ++stage) {
    GridPoint here{size, {stage, 0, 0, 0}};
    plans.push_back(plan_rank(deck, model, here, planned_kind(deck)));
  }
  const ModelFlops flops = flops_per_token(model);
  const double tokens = static_cast<double>(deck.batch.global * deck.model.sequence);
  std::string text =
      format("%s parameters on %d rank%s = %s, %s; numbers are of one rank (tp 0, cp 0, dp 0) of each stage.\n\n",
             count_text(static_cast<double>(model.table().n_elements())).c_str(), n_ranks, n_ranks == 1 ? "" : "s",
             to_string(plans[0].here).c_str(), deck.precision.compute.c_str());
  const std::string fp8 = fp8_lines(deck, model, plans[0].here);
  if (!fp8.empty()) text += fp8 + "\n";
  text += "Memory (micro-batches in flight per chunk):\n" + memory_table(plans);
  text += "\nWork of one step and bytes sent along each axis:\n" + work_table(plans);
  double most = 0;
  for (const RankPlan& plan : plans) most = std::max(most, flops_of(plan));
  const double n_micro = static_cast<double>(deck.batch.global / (deck.batch.micro * size[1]));
  const double bubble = (size[0] - 1) / (static_cast<double>(deck.parallel.virtual_stages) * n_micro);
  text +=
      format("\ntokens per step %s; model FLOPs per token %s causal, %s with full attention; pipeline bubble %.1f %%\n",
             count_text(tokens).c_str(), count_text(flops.causal).c_str(), count_text(flops.full).c_str(),
             100 * bubble / (1 + bubble));
  if (machine == nullptr) return text + rates_text(most, bubble, tokens);
  const Cost cost(*machine, deck.precision.compute);
  return text + prediction_text(predict(deck, model, size, planned_kind(deck), cost, 0), *machine);
}

}  // namespace trireme
