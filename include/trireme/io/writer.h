#pragma once
// Writes a checkpoint part by part, for programs that stream. A training saves with save_checkpoint.

#include <memory>
#include <string>
#include <vector>

#include "trireme/io/checkpoint.h"

namespace trireme {

class CheckpointWriter {
 public:
  // Collective over `control`. arrays: what there will be; pieces are not looked at. Throws on all ranks alike.
  CheckpointWriter(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                   Communicator& control, const SaveOptions& options);
  ~CheckpointWriter();  // without commit() nothing stays
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // The elements [part) of array number `array`, counted row-major, in its dtype. Each once over all ranks.
  void write(std::size_t array, const Range& part, const std::byte* data);
  void commit();  // collective; throws on all ranks alike

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
