#pragma once
// Reads any part of a checkpoint's arrays, one process for itself. It loads no model; for that see load_checkpoint.

#include <memory>
#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"

namespace trireme {

class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& path);                // opens and reads metadata for itself
  CheckpointReader(const std::string& path, Communicator& control);  // collective: rank 0 does it for all
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const Attributes& attributes() const;
  const std::vector<ArrayInfo>& arrays() const;
  const ArrayInfo* find(const std::string& array) const;  // nullptr: not there

  // The elements [part) of an array, counted row-major, in the dtype of the file.
  void read(const std::string& array, const Range& part, std::byte* out);
  std::vector<double> read_values(const std::string& array, const Range& part);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::int64_t count_of(const ArrayInfo& array);

// The share of `count` elements from linear index `first` on in an array's checksum, and a checksum as the file has it.
// Shares add up in any order.
std::uint64_t checksum_share(DType dtype, const std::byte* data, std::int64_t first, std::int64_t count);
std::uint64_t checksum_of_zeros(DType dtype, std::int64_t first, std::int64_t count);
std::string checksum_text(std::uint64_t sum);  // 16 hexadecimal digits

}  // namespace trireme
