#include "trireme/train/links.h"

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

// Edge e joins stages e and e+1 (the last one the last stage and stage 0). A rank is on two edges, so the edges are
// made in three rounds in which no rank appears twice: even, odd, and the closing edge.
PipelineLinks::PipelineLinks(const ProcessGrid& grid) {
  Communicator& pp = grid.along(Axis::pp);
  const int n = pp.size(), me = pp.rank();
  if (n == 1) return;
  const auto round_of = [&](int edge) { return edge == n - 1 ? 2 : edge % 2; };
  const int before = (me - 1 + n) % n;
  for (int round = 0; round < 3; ++round) {
    const bool sends = round_of(me) == round, receives = round_of(before) == round;
    const int color = sends ? me : receives ? before : n + me;
    const int key = sends ? 0 : 1;
    auto activations = pp.split(color, key), gradients = pp.split(color, key);
    activations->rename(format("pp %d to %d, activations", color, (color + 1) % n));
    gradients->rename(format("pp %d to %d, gradients", (color + 1) % n, color));
    if (sends) out_ = {std::move(activations), std::move(gradients)};
    if (!sends && receives) in_ = {std::move(activations), std::move(gradients)};
  }
  require(in_.activations && out_.activations, "every stage has two edges");
}

PipelineLinks PipelineLinks::planned(int n_stages, double* bytes_sent) {
  PipelineLinks links;
  if (n_stages == 1) return links;
  links.in_ = {make_plan_communicator(1, 2, bytes_sent), make_plan_communicator(1, 2, bytes_sent)};
  links.out_ = {make_plan_communicator(0, 2, bytes_sent), make_plan_communicator(0, 2, bytes_sent)};
  return links;
}

Ticket PipelineLinks::receive_activation(Tensor x) {
  return in_.activations->background([x](Communicator& lane) { lane.recv(x, 0); });
}

Ticket PipelineLinks::send_activation(Tensor y) {
  return out_.activations->background([y](Communicator& lane) { lane.send(y, 1); });
}

Ticket PipelineLinks::receive_gradient(Tensor dy) {
  return out_.gradients->background([dy](Communicator& lane) { lane.recv(dy, 1); });
}

Ticket PipelineLinks::send_gradient(Tensor dx) {
  return in_.gradients->background([dx](Communicator& lane) { lane.send(dx, 0); });
}

}  // namespace trireme
