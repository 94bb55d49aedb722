#pragma once
// A copy in host memory of what this rank writes to a checkpoint: training changes the originals while it is written.
// The memory is taken once and used again.

#include <vector>

#include "trireme/device/backend.h"
#include "trireme/io/stored.h"

namespace trireme {

std::size_t snapshot_bytes(const std::vector<Stored>& arrays);

class Snapshot {
 public:
  // Pinned memory of the device for `bytes`; throws Error when there is none.
  Snapshot(Backend& device, std::size_t bytes);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // The same arrays with their pieces in host memory, those only that this rank writes. Returns when all is copied. On
  // any thread when the device is the host itself.
  std::vector<Stored> take(const std::vector<Stored>& arrays);
  std::size_t bytes() const { return bytes_; }

 private:
  Backend& device_;
  std::size_t bytes_;
  std::byte* memory_;
};

}  // namespace trireme
