#pragma once
// Walks the schedules of all stages together as the executor does: receives posted one action early, sends in the
// background, slots and buffers used in turn. It computes nothing; it finds out whether the walk ends, what it meets on
// the way and how long it takes. A broken rule is an exception.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/train/schedule.h"

namespace trireme {

// buffered: a send is gone at once. rendezvous: it has left when the receive on the other side is posted.
enum class Sends : std::uint8_t { buffered, rendezvous };

struct WalkSettings {
  Sends sends = Sends::rendezvous;
  int forward_time = 1, backward_time = 1;  // of one chunk
  std::vector<std::vector<int>> n_slots;    // [stage][chunk]; empty: what the schedule itself needs
};

struct Walked {
  bool finished = false;
  std::string stuck;  // what the stages wait for when it did not finish
  int time = 0;
};

// schedules[stage]; every stage has n_chunks chunks.
Walked walk(const std::vector<Schedule>& schedules, int n_chunks, const WalkSettings& settings);

}  // namespace trireme
