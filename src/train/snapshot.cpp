#include "trireme/train/snapshot.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_start = 64;  // bytes: pieces start at multiples of this

std::size_t room_for(const StoredPiece& piece) {
  return piece.writes ? static_cast<std::size_t>(round_up(static_cast<std::int64_t>(piece.data.bytes()), k_start)) : 0;
}

}  // namespace

std::size_t snapshot_bytes(const std::vector<Stored>& arrays) {
  std::size_t bytes = 0;
  for (const Stored& array : arrays) {
    for (const StoredPiece& piece : array.pieces) bytes += room_for(piece);
  }
  return bytes;
}

Snapshot::Snapshot(Backend& device, std::size_t bytes)
    : device_(device), bytes_(bytes), memory_(device.allocate_pinned(std::max<std::size_t>(bytes, 1))) {}

Snapshot::~Snapshot() {
  device_.release_pinned(memory_);
}

std::vector<Stored> Snapshot::take(const std::vector<Stored>& arrays) {
  require(snapshot_bytes(arrays) <= bytes_, "a snapshot has room for what a checkpoint holds");
  std::vector<Stored> copies = arrays;
  std::byte* next = memory_;
  for (Stored& array : copies) {
    std::erase_if(array.pieces, [](const StoredPiece& piece) { return !piece.writes; });
    for (StoredPiece& piece : array.pieces) {
      device_.to_host_later(next, piece.data);
      piece.data = Tensor(next, piece.data.dtype, piece.data.shape);
      piece.weight = {};
      next += room_for(piece);
    }
  }
  device_.wait(device_.mark());
  return copies;
}

}  // namespace trireme
