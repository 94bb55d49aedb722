#pragma once
// Walks a schedule: receive, compute, send. The only code that knows micro-batches travel. Receives are posted one
// action early, sends go on while the next action computes; a buffer is used again only after what left from it has
// left.

#include <functional>
#include <span>
#include <vector>

#include "trireme/model/model.h"
#include "trireme/train/links.h"
#include "trireme/train/phase_clock.h"
#include "trireme/train/schedule.h"
#include "trireme/train/timeline.h"

namespace trireme {

// Memory of a pipeline: how many micro-batches may be in flight per chunk, and what a boundary tensor looks like.
struct PipelineLayout {
  std::vector<int> n_slots;             // per local chunk
  std::vector<std::size_t> slot_bytes;  // per local chunk: capacity of the arena of one slot
  std::int64_t own_tokens = 0, hidden = 0;
  DType compute = DType::f32;
};

class Pipeline {
 public:
  // Boundary buffers come from `persistent`, slots are arenas of their own.
  Pipeline(std::vector<Stage> stages, const PipelineLayout& layout, PipelineLinks links, Backend& backend,
           Arena& persistent);

  struct Work {
    std::span<const MicroBatch> micro_batches;
    Tensor loss_1;  // f64, += on the last stage
    double gradient_scale = 1;
    PhaseClock* clock = nullptr;                       // of a training step
    Timeline* timeline = nullptr;                      // null: none
    bool training = true;                              // false: forward only, loss without gradients
    std::function<void(const Action*)> begins;         // before each action, and with null after the last: of planners
    std::function<void(int chunk, int layer)> passed;  // gradients of this layer are complete for the whole step
  };
  void run(Context& c, const Schedule& schedule, const Work& work);
  // One micro-batch of zeros forward and backward through each chunk of this rank, with no message to another stage.
  // Gradients are garbage afterwards.
  void rehearse(Context& c, const MicroBatch& mb, Tensor loss_1);

  const std::vector<Stage>& stages() const { return stages_; }
  std::size_t peak_of_slot(int chunk) const;
  int n_slots(int chunk) const { return static_cast<int>(chunks_[static_cast<std::size_t>(chunk)].slots.size()); }

 private:
  struct Chunk {
    std::vector<Stage::Slot> slots;
    std::vector<Ticket> leaving;  // per slot: its output on the way to the next stage
    std::vector<Tensor> inputs;   // one more than slots: the next input may arrive while all slots are busy
  };
  struct Gradient {
    Tensor data;
    Ticket leaving;
  };

  void post(std::size_t index, const Schedule& schedule);
  void forward(Context& c, const Action& action, const Work& work);
  void backward(Context& c, const Action& action, const Work& work);
  Tensor input(const Action& action);
  Gradient& gradient(int n_backwards) { return gradients_[static_cast<std::size_t>(n_backwards) % gradients_.size()]; }
  void drain();

  std::vector<Stage> stages_;
  PipelineLinks links_;
  std::vector<Chunk> chunks_;
  std::vector<Gradient> gradients_;  // three: arriving, in work, leaving
  std::vector<Ticket> arriving_;     // per action of the running schedule
  std::size_t n_posted_ = 0;
  int posted_backwards_ = 0, done_backwards_ = 0;
};

}  // namespace trireme
