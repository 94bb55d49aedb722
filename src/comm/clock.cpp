#include "trireme/comm/clock.h"

#include <array>
#include <limits>

namespace trireme {

namespace {

constexpr int k_rounds = 16;  // the first ones set up connections

Tensor as_tensor(std::int64_t* numbers, std::int64_t n) {
  return {reinterpret_cast<std::byte*>(numbers), DType::i64, {n}};
}

// Rank 0's side: its time before the question and after the answer bounds the other's time in between.
ClockShift ask(Communicator& all, int rank, const std::function<std::int64_t()>& clock) {
  ClockShift best{0, std::numeric_limits<std::int64_t>::max()};
  for (int round = 0; round < k_rounds; ++round) {
    std::int64_t theirs = 0;
    const std::int64_t before = clock();
    all.send(as_tensor(&theirs, 1), rank);
    all.recv(as_tensor(&theirs, 1), rank);
    const std::int64_t after = clock(), error = (after - before + 1) / 2;
    if (error < best.error_ns) best = {before + (after - before) / 2 - theirs, error};
  }
  return best;
}

}  // namespace

ClockShift shift_to_rank_0(Communicator& all, const std::function<std::int64_t()>& clock) {
  std::array<std::int64_t, 2> answer{};
  if (all.rank() == 0) {
    for (int rank = 1; rank < all.size(); ++rank) {
      const ClockShift found = ask(all, rank, clock);
      answer = {found.shift_ns, found.error_ns};
      all.send(as_tensor(answer.data(), 2), rank);
    }
    return {};
  }
  for (int round = 0; round < k_rounds; ++round) {
    std::int64_t mine = 0;
    all.recv(as_tensor(&mine, 1), 0);
    mine = clock();
    all.send(as_tensor(&mine, 1), 0);
  }
  all.recv(as_tensor(answer.data(), 2), 0);
  return {answer[0], answer[1]};
}

}  // namespace trireme
