#include "trireme/train/pipeline.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::size_t k_gradient_buffers = 3;

// "forward 3", with chunks "forward 1.3".
std::string name_of(const Action& action, std::size_t n_chunks) {
  const char* kind = action.kind == Action::forward ? "forward" : "backward";
  if (n_chunks > 1) return format("%s %d.%d", kind, action.chunk, action.micro);
  return format("%s %d", kind, action.micro);
}

}  // namespace

Pipeline::Pipeline(std::vector<Stage> stages, const PipelineLayout& layout, PipelineLinks links, Backend& backend,
                   Arena& persistent)
    : stages_(std::move(stages)), links_(std::move(links)) {
  const Shape boundary{layout.own_tokens, layout.hidden};
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Chunk chunk;
    const auto n = static_cast<std::size_t>(layout.n_slots[i]);
    for (std::size_t slot = 0; slot < n; ++slot) {
      const std::string name = "saved activations of chunk " + std::to_string(i);
      chunk.slots.push_back({Arena(backend, name, layout.slot_bytes[i]), {}, {}});
    }
    chunk.leaving.resize(n);
    for (std::size_t k = 0; !stages_[i].first() && k < n + 1; ++k)
      chunk.inputs.push_back(persistent.take(layout.compute, boundary));
    chunks_.push_back(std::move(chunk));
  }
  const bool alone = stages_.size() == 1 && stages_[0].first() && stages_[0].last();
  for (std::size_t k = 0; k < (alone ? 1 : k_gradient_buffers); ++k) {
    gradients_.push_back({persistent.take(layout.compute, boundary), {}});
  }
}

std::size_t Pipeline::peak_of_slot(int chunk) const {
  std::size_t peak = 0;
  for (const Stage::Slot& slot : chunks_[static_cast<std::size_t>(chunk)].slots)
    peak = std::max(peak, slot.keep.peak());
  return peak;
}

Tensor Pipeline::input(const Action& action) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  return chunk.inputs.empty() ? Tensor{} : chunk.inputs[static_cast<std::size_t>(action.micro) % chunk.inputs.size()];
}

// Starts the receive that action `index` will wait for.
void Pipeline::post(std::size_t index, const Schedule& schedule) {
  if (index >= schedule.size() || index < n_posted_) return;
  n_posted_ = index + 1;
  const Action& action = schedule[index];
  const Stage& stage = stages_[static_cast<std::size_t>(action.chunk)];
  if (action.kind == Action::forward) {
    if (!stage.first()) arriving_[index] = links_.receive_activation(input(action));
    return;
  }
  Gradient& buffer = gradient(posted_backwards_++);
  buffer.leaving.wait();
  if (!stage.last()) arriving_[index] = links_.receive_gradient(buffer.data);
}

void Pipeline::run(Context& c, const Schedule& schedule, const Work& work) {
  arriving_.clear();
  arriving_.resize(schedule.size());
  n_posted_ = 0;
  posted_backwards_ = done_backwards_ = 0;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (work.begins) work.begins(&schedule[i]);
    post(i, schedule);
    post(i + 1, schedule);
    if (work.clock && arriving_[i].join) work.clock->enter(Phase::waiting);
    arriving_[i].wait();
    if (work.clock) work.clock->enter(schedule[i].kind == Action::forward ? Phase::forward : Phase::backward);
    const Within here(c.be, work.timeline, name_of(schedule[i], stages_.size()), "micro-batch");
    c.into = schedule[i].micro == 0 ? Into::replace : Into::add;
    if (schedule[i].kind == Action::forward) forward(c, schedule[i], work);
    if (schedule[i].kind == Action::backward) backward(c, schedule[i], work);
  }
  if (work.begins) work.begins(nullptr);
  drain();
}

void Pipeline::rehearse(Context& c, const MicroBatch& mb, Tensor loss_1) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    Stage::Slot& slot = chunks_[i].slots.front();
    const Tensor x = chunks_[i].inputs.empty() ? Tensor{} : chunks_[i].inputs.front();
    if (x) c.be.fill(x, 0);
    stage.forward(c, mb, x, slot);
    if (stage.last()) stage.loss(c, mb, slot, loss_1);
    c.be.fill(gradients_.front().data, 0);
    stage.backward(c, mb, gradients_.front().data, slot, loss_1, 1.0, [](int) {});
  }
}

void Pipeline::forward(Context& c, const Action& action, const Work& work) {
  const Stage& stage = stages_[static_cast<std::size_t>(action.chunk)];
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  const std::size_t index = static_cast<std::size_t>(action.micro) % chunk.slots.size();
  Stage::Slot& slot = chunk.slots[index];
  chunk.leaving[index].wait();
  const MicroBatch& mb = work.micro_batches[static_cast<std::size_t>(action.micro)];
  const Tensor y = stage.forward(c, mb, input(action), slot);
  if (!stage.last()) chunk.leaving[index] = links_.send_activation(y);
  if (stage.last() && !work.training) stage.loss(c, mb, slot, work.loss_1);
}

void Pipeline::backward(Context& c, const Action& action, const Work& work) {
  const Stage& stage = stages_[static_cast<std::size_t>(action.chunk)];
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  Gradient& buffer = gradient(done_backwards_++);
  const bool last_micro = action.micro + 1 == static_cast<int>(work.micro_batches.size());
  const auto done = [&](int layer) {
    if (last_micro && work.passed) work.passed(action.chunk, layer);
  };
  stage.backward(c, work.micro_batches[static_cast<std::size_t>(action.micro)], buffer.data,
                 chunk.slots[static_cast<std::size_t>(action.micro) % chunk.slots.size()], work.loss_1,
                 work.gradient_scale, done);
  if (!stage.first()) buffer.leaving = links_.send_gradient(buffer.data);
}

void Pipeline::drain() {
  for (Chunk& chunk : chunks_) {
    for (Ticket& ticket : chunk.leaving) ticket.wait();
  }
  for (Gradient& gradient : gradients_) gradient.leaving.wait();
}

}  // namespace trireme
