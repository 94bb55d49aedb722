#pragma once
// Deck section [checkpoint]: saving.

#include <cstdint>
#include <string>

#include "trireme/deck/field.h"

namespace trireme {

struct CheckpointDeck {
  std::int64_t every = 0, keep = 2;
  bool at_end = true;
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between checkpoints; 0: none on the way", size_from(0));
    v.field("at_end", at_end, "write one after the last step", any<bool>());
    v.field("keep", keep, "newest checkpoints to keep; 0: all", size_from(0));
  }
};

}  // namespace trireme
