#include "checkpoint_file.h"

#include <algorithm>
namespace trireme {

Round ArrayPlan::round(std::int64_t i) const {
  return i < static_cast<std::int64_t>(rounds.size()) ? rounds[static_cast<std::size_t>(i)] : Round{};
}

ArrayPlan plan_array(const Stored& array, DType file_dtype, std::int64_t round_bytes) {
  const std::int64_t limit = std::max<std::int64_t>(1, round_bytes / static_cast<std::int64_t>(size_of(file_dtype)));
  return {plan_rounds(array, limit), 0};
}

void agree_on_rounds(std::vector<ArrayPlan>& plans, const Ranks& ranks) {
  std::vector<std::int64_t> meetings;
  for (const ArrayPlan& plan : plans) meetings.push_back(static_cast<std::int64_t>(plan.rounds.size()));
  ranks.max(meetings);
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].n_meetings = meetings[i];
}

void agree(Communicator& control, const std::function<void()>& work) {
  Ranks(control).together(work);
}

}  // namespace trireme
