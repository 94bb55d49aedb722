#include "walk.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <stdexcept>

namespace trireme {

namespace {

struct Message {
  int chunk = 0, micro = 0;  // of the forward that takes it, of the backward that takes it
  bool operator==(const Message&) const = default;
};

// One direction of travel between two stages: the k-th send meets the k-th receive.
struct Wire {
  std::vector<Message> sent, posted;
  std::vector<int> sent_at, posted_at;
};

std::string to_string(const Action& action) {
  return to_csv({action});
}

struct Stage {
  Schedule schedule;
  std::size_t next = 0, n_posted = 0;
  int time = 0;
  int posted_backwards = 0, done_backwards = 0;
  std::vector<std::vector<std::optional<std::size_t>>> leaving;  // [chunk][slot]: number of the send on the wire
  std::vector<std::vector<int>> slot_of;                         // [chunk][slot]: micro-batch it holds, -1: free
  std::vector<std::vector<int>> input_of;                        // the same of the input buffers
  std::optional<std::size_t> gradient_leaving[3];
  std::vector<std::optional<std::size_t>> arriving;  // per action: number of the receive on its wire
};

class Walk {
 public:
  Walk(const std::vector<Schedule>& schedules, int n_chunks, const WalkSettings& settings)
      : n_(static_cast<int>(schedules.size())),
        n_chunks_(n_chunks),
        settings_(settings),
        activations_(schedules.size()),
        gradients_(schedules.size()) {
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      Stage stage;
      stage.schedule = schedules[s];
      stage.arriving.resize(schedules[s].size());
      for (int chunk = 0; chunk < n_chunks; ++chunk) {
        const int slots = settings.n_slots.empty() ? max_in_flight(schedules[s], chunk)
                                                   : settings.n_slots[s][static_cast<std::size_t>(chunk)];
        stage.leaving.emplace_back(static_cast<std::size_t>(slots));
        stage.slot_of.emplace_back(static_cast<std::size_t>(slots), -1);
        stage.input_of.emplace_back(static_cast<std::size_t>(slots) + 1, -1);
      }
      stages_.push_back(stage);
    }
  }

  Walked run() {
    Walked walked;
    bool moved = true;
    while (moved) {
      moved = false;
      for (int s = 0; s < n_; ++s) moved = advance(s) || moved;
    }
    for (int s = 0; s < n_; ++s) {
      const Stage& stage = stages_[static_cast<std::size_t>(s)];
      walked.time = std::max(walked.time, stage.time);
      if (stage.next == stage.schedule.size() && drained(s)) continue;
      const bool draining = stage.next == stage.schedule.size();
      walked.stuck +=
          " stage " + std::to_string(s) + (draining ? " at its end" : " at " + to_string(stage.schedule[stage.next]));
    }
    walked.finished = walked.stuck.empty();
    return walked;
  }

 private:
  bool first(int s, int chunk) const { return s == 0 && chunk == 0; }
  bool last(int s, int chunk) const { return s == n_ - 1 && chunk == n_chunks_ - 1; }
  // activations_[s] leads from stage s to the next, gradients_[s] from stage s to the one before.
  Wire& activations_into(int s) { return activations_[static_cast<std::size_t>((s - 1 + n_) % n_)]; }
  Wire& gradients_into(int s) { return gradients_[static_cast<std::size_t>((s + 1) % n_)]; }

  bool has_left(const Wire& wire, std::size_t k) const {
    return settings_.sends == Sends::buffered || k < wire.posted.size();
  }
  bool gone(const Wire& wire, std::optional<std::size_t>& sent) const {
    if (sent && !has_left(wire, *sent)) return false;
    sent.reset();
    return true;
  }

  bool drained(int s) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    bool all = true;
    for (auto& chunk : stage.leaving) {
      for (auto& sent : chunk) all = gone(activations_[static_cast<std::size_t>(s)], sent) && all;
    }
    for (auto& sent : stage.gradient_leaving) all = gone(gradients_[static_cast<std::size_t>(s)], sent) && all;
    return all;
  }

  // False when a gradient buffer is still on its way.
  bool post(int s, std::size_t index) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    if (index >= stage.schedule.size() || index < stage.n_posted) return true;
    const Action& action = stage.schedule[index];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (action.kind == Action::forward && !first(s, action.chunk)) {
      std::vector<int>& inputs = stage.input_of[chunk];
      int& holder = inputs[static_cast<std::size_t>(action.micro) % inputs.size()];
      if (holder >= 0) throw std::logic_error("an input buffer is used twice at " + to_string(action));
      holder = action.micro;
      receive(s, index, activations_into(s), action);
    }
    if (action.kind == Action::backward) {
      auto& buffer = stage.gradient_leaving[stage.posted_backwards % 3];
      if (!gone(gradients_[static_cast<std::size_t>(s)], buffer)) return false;
      ++stage.posted_backwards;
      if (!last(s, action.chunk)) receive(s, index, gradients_into(s), action);
    }
    stage.n_posted = index + 1;
    return true;
  }

  void receive(int s, std::size_t index, Wire& wire, const Action& action) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    stage.arriving[index] = wire.posted.size();
    wire.posted.push_back({action.chunk, action.micro});
    wire.posted_at.push_back(stage.time);
  }

  void send(int s, Wire& wire, Message message, std::optional<std::size_t>& sent) {
    sent = wire.sent.size();
    wire.sent.push_back(message);
    wire.sent_at.push_back(stages_[static_cast<std::size_t>(s)].time);
  }

  // One action, if nothing holds it up.
  bool advance(int s) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    if (stage.next == stage.schedule.size()) return false;
    const std::size_t index = stage.next;
    const Action action = stage.schedule[index];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const std::size_t before = stage.n_posted;
    if (!post(s, index) || !post(s, index + 1)) return stage.n_posted > before;
    Wire& wire = action.kind == Action::forward ? activations_into(s) : gradients_into(s);
    int ready = 0;
    if (stage.arriving[index]) {
      const std::size_t k = *stage.arriving[index];
      if (k >= wire.sent.size()) return stage.n_posted > before;
      if (wire.sent[k] != Message{action.chunk, action.micro})
        throw std::logic_error("messages cross on the way to stage " + std::to_string(s) + " at " + to_string(action));
      ready = wire.sent_at[k];
    }
    const std::size_t slot = static_cast<std::size_t>(action.micro) % stage.slot_of[chunk].size();
    auto& leaving = stage.leaving[chunk][slot];
    if (action.kind == Action::forward && !gone(activations_[static_cast<std::size_t>(s)], leaving))
      return stage.n_posted > before;
    const bool forward = action.kind == Action::forward;
    stage.time = std::max(stage.time, ready) + (forward ? settings_.forward_time : settings_.backward_time);
    if (forward) this->forward(s, action, slot);
    if (!forward) backward(s, action, slot);
    ++stage.next;
    return true;
  }

  void forward(int s, const Action& action, std::size_t slot) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const bool keeps = std::find(stage.schedule.begin(), stage.schedule.end(),
                                 Action{Action::backward, action.chunk, action.micro}) != stage.schedule.end();
    if (stage.slot_of[chunk][slot] >= 0) throw std::logic_error("a slot is used twice at " + to_string(action));
    if (keeps) stage.slot_of[chunk][slot] = action.micro;
    if (!keeps) free_input(stage, action);
    const int to_chunk = s == n_ - 1 ? action.chunk + 1 : action.chunk;
    if (!last(s, action.chunk)) {
      send(s, activations_[static_cast<std::size_t>(s)], {to_chunk, action.micro}, stage.leaving[chunk][slot]);
    }
  }

  void backward(int s, const Action& action, std::size_t slot) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (stage.slot_of[chunk][slot] != action.micro) throw std::logic_error("no forward before " + to_string(action));
    stage.slot_of[chunk][slot] = -1;
    free_input(stage, action);
    auto& buffer = stage.gradient_leaving[stage.done_backwards++ % 3];
    const int to_chunk = s == 0 ? action.chunk - 1 : action.chunk;
    if (!first(s, action.chunk)) {
      send(s, gradients_[static_cast<std::size_t>(s)], {to_chunk, action.micro}, buffer);
    }
  }

  static void free_input(Stage& stage, const Action& action) {
    std::vector<int>& inputs = stage.input_of[static_cast<std::size_t>(action.chunk)];
    inputs[static_cast<std::size_t>(action.micro) % inputs.size()] = -1;
  }

  int n_, n_chunks_;
  WalkSettings settings_;
  std::vector<Wire> activations_, gradients_;
  std::vector<Stage> stages_;
};

}  // namespace

Walked walk(const std::vector<Schedule>& schedules, int n_chunks, const WalkSettings& settings) {
  return Walk(schedules, n_chunks, settings).run();
}

}  // namespace trireme
