#pragma once
// From the boards of all ranks to a verdict: does the job hang, who did not arrive, who waits for whom. Pure functions;
// the watchdog calls them and acts.

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/trace.h"

namespace trireme {

// What one rank was seen to do. Ages are in seconds, so that it can travel between hosts.
struct RankSight {
  int rank = 0;
  std::string host, device;
  double silent = 0;  // since its watchdog last moved: the whole process is stopped, swapped out or dead
  double since = 0;   // since it entered what it waits in, or left it
  std::int64_t step = 0;
  Operation operation = Operation::none;  // none: it computes
  std::uint64_t communicator = 0;         // id
  std::int64_t number = 0;                // of the operation on it; negative: of background work
  std::int64_t bytes = 0;
  std::string last;  // what it did before
  struct Count {
    std::uint64_t id = 0;
    std::string name;
    std::int64_t size = 0, n_main = 0, n_lane = 0;
  };
  std::vector<Count> counts;

  const Count* count_of(std::uint64_t id) const;
};

RankSight sight_of(const Board& board);
std::string pack(const std::vector<RankSight>& sights);
std::vector<RankSight> unpack_sights(const std::string& text);  // what cannot be read is left out

// Nothing while some rank still makes progress within `patience` seconds. Files get six times as long.
std::optional<std::string> hang_report(const std::vector<RankSight>& sights, double patience);

// The rank (index into sights) that the others wait for; nothing when they wait for each other in a circle.
std::optional<std::size_t> first_to_blame(const std::vector<RankSight>& sights, double patience);

}  // namespace trireme
