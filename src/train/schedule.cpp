#include "trireme/train/schedule.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// Item k of the order in which a stage meets (chunk, micro-batch) pairs: groups of n_stages micro-batches pass chunk
// after chunk. The backward pass meets the chunks in reverse.
Action item(Action::Kind kind, int k, int n_stages, int n_chunks) {
  const int group = n_stages * n_chunks;
  const int chunk = k % group / n_stages, micro = k / group * n_stages + k % n_stages;
  return {kind, kind == Action::forward ? chunk : n_chunks - 1 - chunk, micro};
}

// One chunk: plain order.
int group_of(int n_stages, int n_micro, int n_chunks) {
  require(n_chunks == 1 || n_micro % n_stages == 0, "interleaving needs a multiple of the stages in micro-batches");
  return n_chunks == 1 ? 1 : n_stages;
}

}  // namespace

Schedule gpipe(int, int n_stages, int n_micro, int n_chunks) {
  const int group = group_of(n_stages, n_micro, n_chunks);
  Schedule schedule = forward_only(n_stages, n_micro, n_chunks);
  for (int k = 0; k < n_micro * n_chunks; ++k) schedule.push_back(item(Action::backward, k, group, n_chunks));
  return schedule;
}

// Chunk after chunk for all micro-batches would fill the wires: stage 0 must take what comes round before it goes on.
Schedule forward_only(int n_stages, int n_micro, int n_chunks) {
  const int group = group_of(n_stages, n_micro, n_chunks);
  Schedule schedule;
  for (int k = 0; k < n_micro * n_chunks; ++k) schedule.push_back(item(Action::forward, k, group, n_chunks));
  return schedule;
}

Schedule one_f_one_b(int stage, int n_stages, int n_micro, int n_chunks) {
  const int group = group_of(n_stages, n_micro, n_chunks);
  const int total = n_micro * n_chunks;
  const int wanted = n_chunks == 1 ? n_stages - stage - 1 : 2 * (n_stages - stage - 1) + (n_chunks - 1) * n_stages;
  const int warm_up = std::min(total, wanted);
  Schedule schedule;
  for (int k = 0; k < warm_up; ++k) schedule.push_back(item(Action::forward, k, group, n_chunks));
  for (int k = warm_up; k < total; ++k) {
    schedule.push_back(item(Action::forward, k, group, n_chunks));
    schedule.push_back(item(Action::backward, k - warm_up, group, n_chunks));
  }
  for (int k = total - warm_up; k < total; ++k) schedule.push_back(item(Action::backward, k, group, n_chunks));
  return schedule;
}

Schedule make_schedule(const std::string& name, int stage, int n_stages, int n_micro, int n_chunks) {
  if (name == "gpipe") return gpipe(stage, n_stages, n_micro, n_chunks);
  require(name == "1f1b", "unknown schedule " + name);
  return one_f_one_b(stage, n_stages, n_micro, n_chunks);
}

int max_in_flight(const Schedule& schedule, int chunk) {
  int now = 0, most = 0;
  for (const Action& action : schedule) {
    if (action.chunk != chunk) continue;
    now += action.kind == Action::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const Action& action : schedule) {
    if (!text.empty()) text += ",";
    text += (action.kind == Action::forward ? "F" : "B") + std::to_string(action.chunk) + "." +
            std::to_string(action.micro);
  }
  return text;
}

}  // namespace trireme
