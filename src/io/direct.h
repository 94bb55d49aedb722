#pragma once
// Moves one rank's pieces of an array between memory and the places of their elements in the files. No rank waits for
// another here and nothing calls HDF5 or MPI: a rank that fails throws, the others go on to where all agree.

#include "data_files.h"
#include "staging.h"
#include "trireme/device/backend.h"
#include "trireme/io/stored.h"

namespace trireme {

// This rank's share of an array's checksum, of the elements that it counts.
struct Share {
  std::uint64_t sum = 0, count = 0;
};

class Direct {
 public:
  // At most slice_bytes of an array are copied on the host at a time (none where the memory can be used as it is).
  Direct(DataFiles& files, Backend& backend, std::int64_t slice_bytes);
  Share write(const Stored& array, const ArrayPlace& place);  // pieces that write
  Share read(const Stored& array, const ArrayPlace& place);   // all pieces; rows that the file lacks become zero

 private:
  // The part [range) of a piece: its memory, and its weights' where there are any.
  void read_slice(const StoredPiece& piece, const Range& range, const ArrayPlace& place, Share& share);

  DataFiles& files_;
  Backend& backend_;
  std::int64_t slice_bytes_;
  HostBuffer file_side_, memory_side_, weights_;
};

// The part [range) of a piece from its elements in host memory, of dtype `file`; the buffers are scratch.
void load_from_host(Backend& backend, const StoredPiece& piece, const Range& range, DType file, std::byte* in,
                    HostBuffer& values, HostBuffer& weights);

// True when elements of dtype `file` can be loaded into the piece.
bool can_load(const StoredPiece& piece, DType file);

}  // namespace trireme
