#pragma once
// The wires of the pipeline ring: for each direction of travel a pair of ranks has a communicator of its own, so that
// activations never queue behind gradients and a receive posted early never blocks a send.

#include <memory>

#include "trireme/comm/process_grid.h"

namespace trireme {

class PipelineLinks {
 public:
  PipelineLinks() = default;                                       // one stage: no wires
  explicit PipelineLinks(const ProcessGrid& grid);                 // collective over the pp axis
  static PipelineLinks planned(int n_stages, double* bytes_sent);  // moves nothing, counts bytes

  // Each starts at once and returns the ticket. Messages on one wire arrive in the order sent.
  [[nodiscard]] Ticket receive_activation(Tensor x);  // from the stage before (the last one, for stage 0)
  [[nodiscard]] Ticket send_activation(Tensor y);     // to the next stage (stage 0, for the last one)
  [[nodiscard]] Ticket receive_gradient(Tensor dy);   // from the next stage
  [[nodiscard]] Ticket send_gradient(Tensor dx);      // to the stage before

 private:
  struct Edge {
    std::unique_ptr<Communicator> activations, gradients;  // two ranks: 0 sends activations, 1 sends gradients
  };
  Edge in_, out_;  // edge to the stage before, edge to the next
};

}  // namespace trireme
