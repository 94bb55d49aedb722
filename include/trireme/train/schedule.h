#pragma once
// Pipeline schedules as data: a list of actions for one stage, from pure functions of a few integers. Gradient
// accumulation is the one-stage case. Nothing here computes or communicates; the executor walks the list.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct Action {
  enum Kind : std::uint8_t { forward, backward } kind;
  int chunk;
  int micro;
  bool operator==(const Action&) const = default;
};
using Schedule = std::vector<Action>;

// All forwards, then all backwards.
Schedule gpipe(int stage, int n_stages, int n_micro, int n_chunks);
// One forward, one backward after a warm-up (Narayanan et al., 2021, section 2.2). With n_chunks > 1 every schedule is
// interleaved, and n_micro must be a multiple of n_stages.
Schedule one_f_one_b(int stage, int n_stages, int n_micro, int n_chunks);
// Forward actions only: validation.
Schedule forward_only(int n_stages, int n_micro, int n_chunks);
Schedule make_schedule(const std::string& name, int stage, int n_stages, int n_micro, int n_chunks);

// Micro-batches of one chunk between their forward and their backward: activation slots needed.
int max_in_flight(const Schedule& schedule, int chunk);
// "F0.3" forward of chunk 0, micro-batch 3; comma separated: for logs, tests and papers.
std::string to_csv(const Schedule& schedule);

}  // namespace trireme
