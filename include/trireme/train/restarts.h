#pragma once
// The guard against a job that is started again and again and never gets further: counts the starts of one deck from
// one step in a small file of the run folder. Rank 0 only; it ends nothing itself.

#include <cstdint>
#include <string>

namespace trireme {

// Notes a start from `step`. Throws Error(Exit::rank) when it is the one after `allowed` starts of the same deck from
// the same step, none of which saved anything. allowed = 0: never.
void note_start(const std::string& run_folder, std::int64_t step, const std::string& deck_text, std::int64_t allowed);

// Something was saved or the run is finished: the count begins anew.
void note_progress(const std::string& run_folder);

}  // namespace trireme
