#pragma once
// Moves the parts of one round from their pieces to a buffer in file order, on the host and in the file's dtype.
// The buffers are allocated when first needed and kept for all arrays of a checkpoint.

#include "pieces.h"
#include "trireme/device/backend.h"

namespace trireme {

// Pinned host memory that grows.
class HostBuffer {
 public:
  explicit HostBuffer(Backend& backend) : backend_(backend) {}
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  std::byte* at_least(std::size_t bytes);  // contents are lost when it grows

 private:
  Backend& backend_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class Staging {
 public:
  explicit Staging(Backend& backend) : backend_(backend), buffer_(backend), bounce_(backend) {}

  // Room for a round in the file's dtype.
  std::byte* buffer(const Round& round, DType file_dtype);
  void from_pieces(const Stored& array, const Round& round, const Runs& runs, DType file_dtype);
  // This rank's share of the array's checksum.
  std::uint64_t sum(const Round& round, const Runs& runs, DType file_dtype);

 private:
  Backend& backend_;
  HostBuffer buffer_, bounce_;
};

}  // namespace trireme
