#pragma once
// Streams one rank's share of the arrays from one checkpoint to another, in bounded memory. It makes no decisions about
// the files; see recipe.h.

#include <cstdint>
#include <functional>
#include <vector>

#include "recipe.h"
#include "trireme/io/writer.h"

namespace trireme::reshard {

// Checksums of what was read, by recipe: shares of this rank, of `source` and of `second`.
struct InputSums {
  std::vector<std::uint64_t> source, second;
};

struct Share {
  int rank = 0, n_ranks = 1;
  std::int64_t memory = 0;  // bytes that the rank may hold of arrays
};

// progress: called with the bytes written since the last call.
InputSums stream(CheckpointReader& in, CheckpointWriter& out, const Plan& plan, const Share& share,
                 const std::function<void(double)>& progress);

// Checksums of this rank's share of every array of a file.
std::vector<std::uint64_t> sums_of(CheckpointReader& file, const Share& share);

// Throws Damaged naming the arrays of the input whose checksums are not those of the file; sums: over all ranks.
void require_good_input(const CheckpointReader& in, const std::string& path, const Plan& plan, const InputSums& sums);

}  // namespace trireme::reshard
