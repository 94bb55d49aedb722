#pragma once
// A short test of every rank's device and links before a run: a matrix product whose answer is known, copies, a sum
// over all ranks, messages around the ring of ranks. Names ranks whose numbers are wrong or that are slow; it does not
// decide what to do about them.

#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/device/backend.h"

namespace trireme {

struct BurnInSize {
  std::int64_t side = 0;      // of the square matrices; a multiple of 16
  std::int64_t elements = 0;  // of what is copied, summed and sent
  int rounds = 0;             // of each, after one that warms up
};
BurnInSize burn_in_size(DeviceKind kind);  // a second or two

struct BurnInResult {
  double product = 0;        // FLOP/s
  double copy = 0;           // bytes per second, read and written
  double ring = 0;           // bytes per second to the next rank; 0 for one rank alone
  double wrong_product = 0;  // checks that failed
  double wrong_sum = 0;
};

// What this rank measures, with memory of its own that is released again. dtype: of the products. Collective over
// `world`, whose tensors are `backend`'s.
BurnInResult burn_in(Backend& backend, Communicator& world, DType dtype, const BurnInSize& size);

struct BurnInVerdict {
  std::string summary;             // smallest to largest of each kind
  std::vector<std::string> wrong;  // "rank 3 on node7, GPU 1: its matrix products are wrong"
  std::vector<std::string> slow;   // more than a fifth below the median
};
// places: "rank 3 on node7, GPU 1" by rank.
BurnInVerdict judge(const std::vector<BurnInResult>& by_rank, const std::vector<std::string>& places);

// Everyone's results and places, by rank. control: host tensors. Collective.
std::vector<BurnInResult> gather(Communicator& control, const BurnInResult& mine);
std::vector<std::string> gather(Communicator& control, const std::string& mine);

}  // namespace trireme
