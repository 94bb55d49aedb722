#pragma once
// The start-up table, and the checks that belong before the first step.

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/log.h"
#include "trireme/comm/mpi.h"
#include "trireme/train/memory_plan.h"

namespace trireme {

LogLevel log_level_from(const std::string& name);

// Every decision of the run: model, grid, stages, memory, FLOPs. lines: further ones, as they are.
std::string start_up_table(const Deck& deck, const Model& model, const RankPlan& plan, int n_ranks,
                           const std::vector<std::string>& lines);

// Throws Error(Exit::usage) naming the plan's largest items when the device has less memory than planned.
void check_memory(const RankPlan& plan, const Backend& backend);

// False for settings that may differ between a checkpoint and the run that reads it: they are reported, not refused.
bool changes_the_model(const std::string& key);

// Runs work on every rank, and no collective call in which an Error could leave others waiting. An Error that all ranks
// meet becomes one SharedError; of those that only some meet the lowest rank's is reported.
void together(const MpiSession& session, const std::function<void()>& work);

// Runs work on rank 0; its Error becomes everyone's SharedError. Collective.
void on_rank_0(const MpiSession& session, const std::function<void()>& work);

}  // namespace trireme
