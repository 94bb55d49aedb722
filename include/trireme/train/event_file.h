#pragma once
// A TensorBoard event file: scalars by tag and step, written as TFRecords with their checksums. Encodes the few
// protobuf fields that scalars need; it reads nothing.

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

std::uint32_t crc32c(const std::string& bytes);  // Castagnoli, as iSCSI and TFRecord use it

class EventFile {
 public:
  // A new file in `folder`. first_step: what other files of the folder hold from this step on is undone.
  EventFile(const std::string& folder, std::int64_t first_step);
  using Scalars = std::vector<std::pair<std::string, double>>;
  void write(std::int64_t step, const Scalars& scalars);  // throws Error(Exit::data) when the disk does not take it

 private:
  void record(const std::string& event);

  std::string path_;
  std::ofstream out_;
};

}  // namespace trireme
