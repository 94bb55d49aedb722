#include "trireme/train/predict.h"

#include <algorithm>
#include <map>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/train/makespan.h"
#include "trireme/train/step_clock.h"

namespace trireme {

namespace {

int n_micro_of(const Deck& deck, const GridPoint& here) {
  return static_cast<int>(div_exact(deck.batch.global, deck.batch.micro * here.n(Axis::dp)));
}

// Interleaving comes in groups of micro-batches.
int group_of(const Deck& deck, const GridPoint& here) {
  return deck.parallel.virtual_stages > 1 ? here.n(Axis::pp) : 1;
}

// Micro-batches that show all that differs: a first, one between, a last.
int n_shown(const Deck& deck, const GridPoint& here) {
  return std::min(n_micro_of(deck, here), static_cast<int>(round_up(3, group_of(deck, here))));
}

// Sorts what the clock shows between actions into times by kind, chunk and micro-batch.
class Sorter {
 public:
  Sorter(const StepClock& clock, int n_chunks, int n_micro) : clock_(clock), n_micro_(n_micro) {
    for (auto* list : {&times.forward, &times.backward, &times.forward_waits, &times.backward_waits})
      list->resize(static_cast<std::size_t>(n_chunks));
  }
  void begins(const Action* action) {
    if (running_) {
      const auto chunk = static_cast<std::size_t>(action_.chunk);
      const bool forward = action_.kind == Action::forward;
      store((forward ? times.forward : times.backward)[chunk], clock_.now() - begin_);
      store((forward ? times.forward_waits : times.backward_waits)[chunk], clock_.waited() - waited_);
    }
    begin_ = clock_.now();
    waited_ = clock_.waited();
    running_ = action != nullptr;
    if (running_) action_ = *action;
  }
  void step_ends() {
    times.tail = clock_.now() - begin_;
    times.tail_waits = clock_.waited() - waited_;
  }

  StageTimes times;

 private:
  void store(ActionSeconds& seconds, double value) const {
    if (action_.micro == 0) seconds.first = value;
    if (action_.micro == 1 || n_micro_ == 1) seconds.middle = value;
    if (action_.micro + 1 == n_micro_) seconds.last = value;
  }

  const StepClock& clock_;
  int n_micro_;
  bool running_ = false;
  Action action_{};
  double begin_ = 0, waited_ = 0;
};

// Stages with as many layers in each chunk, recomputing the same, and neither or both an embedding and a head, take the
// same time.
std::string kind_of(const Partition& partition, const ParallelDeck& parallel, int stage) {
  std::string kind = std::string(stage == 0 ? "first" : "") + (stage == partition.n_stages - 1 ? "last" : "");
  for (int chunk = 0; chunk < partition.n_chunks; ++chunk) {
    kind += " " + std::to_string(partition.layers(stage, chunk).count()) + " " +
            parallel.recompute_of(std::int64_t{chunk} * partition.n_stages + stage);
  }
  return kind;
}

double sum_of(const std::vector<ActionSeconds>& actions, int n_micro) {
  double sum = 0;
  for (const ActionSeconds& seconds : actions) sum += seconds.sum(n_micro);
  return sum;
}

double boundary_bytes(const Deck& deck, const GridPoint& here) {
  const double tokens = static_cast<double>(deck.batch.micro * deck.model.sequence) / here.n(Axis::cp);
  const double own = deck.parallel.sequence ? tokens / here.n(Axis::tp) : tokens;
  return own * static_cast<double>(deck.model.hidden) *
         static_cast<double>(size_of(dtype_from(deck.precision.compute)));
}

void note_memory(Prediction& p, double reserve) {
  for (const StagePlan& stage : p.stages) {
    const double bytes = static_cast<double>(stage.memory.total()) + reserve;
    if (bytes <= p.memory) continue;
    p.memory = bytes;
    p.fullest = stage.memory.here.at(Axis::pp);
    const auto largest = std::max_element(stage.memory.memory.begin(), stage.memory.memory.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    p.largest = largest->first + ", " + bytes_text(static_cast<double>(largest->second));
  }
}

struct Kinds {
  std::vector<std::size_t> of_stage;  // number in Prediction::stages
};

void note_time(Prediction& p, const Deck& deck, const Kinds& kinds, const GridPoint& origin, const Cost& cost) {
  const int n_stages = origin.n(Axis::pp), n_chunks = static_cast<int>(deck.parallel.virtual_stages);
  const int n_micro = n_micro_of(deck, origin);
  const auto times_of = [&](int stage) -> const StageTimes& {
    return p.stages[kinds.of_stage[static_cast<std::size_t>(stage)]].times;
  };
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < n_stages; ++stage)
    schedules.push_back(make_schedule(deck.parallel.schedule, stage, n_stages, n_micro, n_chunks));
  PipelineTimes times;
  times.n_chunks = n_chunks;
  times.seconds = [&](int stage, const Action& action) {
    const StageTimes& t = times_of(stage);
    const auto& seconds = action.kind == Action::forward ? t.forward : t.backward;
    return seconds[static_cast<std::size_t>(action.chunk)].of(action.micro, n_micro);
  };
  if (n_stages > 1) {
    const int stride = origin.n(Axis::dp) * origin.n(Axis::cp) * origin.n(Axis::tp);
    const double bytes = boundary_bytes(deck, origin);
    times.message = cost.exchange({ExchangeKind::send, 2, stride, bytes});
    times.closing_message = cost.exchange({ExchangeKind::send, 2, stride * (n_stages - 1), bytes});
  }
  const Makespan span = makespan(schedules, times);
  double busiest = 0;
  for (int stage = 0; stage < n_stages; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const StageTimes& t = times_of(stage);
    p.step = std::max(p.step, span.end[s] + t.tail);
    const double busy = span.busy[s] + t.tail;
    if (busy <= busiest) continue;
    busiest = busy;
    p.exposed = sum_of(t.forward_waits, n_micro) + sum_of(t.backward_waits, n_micro) + t.tail_waits;
  }
  p.bubble = (p.step - busiest) / p.step;
  p.exposed /= p.step;
}

}  // namespace

StagePlan plan_stage(const Deck& deck, const Model& model, const GridPoint& here, DeviceKind kind, const Cost& cost,
                     double most_memory) {
  StepClock clock(cost);
  const std::unique_ptr<Backend> backend = make_plan_backend(kind, clock);
  const ProcessGrid grid = ProcessGrid::planned(here, clock);
  Engine engine(deck, model, grid, *backend, {}, Wires::planned);
  const double persistent = static_cast<double>(engine.peaks().persistent) + cost.machine().reserve;
  if (most_memory > 0 && persistent > most_memory) return {memory_of(deck, engine, here, kind), {}};
  const int n_micro = n_shown(deck, here);
  engine.initialise();
  engine.train(planned_batch(group_of(deck, here)), {});
  Sorter sorter(clock, static_cast<int>(deck.parallel.virtual_stages), n_micro);
  engine.before_actions([&](const Action* action) { sorter.begins(action); });
  engine.train(planned_batch(n_micro), {});
  sorter.step_ends();
  engine.before_actions(nullptr);
  engine.evaluate(planned_batch(group_of(deck, here)));
  return {memory_of(deck, engine, here, kind), sorter.times};
}

Prediction predict(const Deck& deck, const Model& model, const std::array<int, k_n_axes>& size, DeviceKind kind,
                   const Cost& cost, double most_memory) {
  const Partition partition =
      make_partition(static_cast<int>(deck.model.layers), size[0], static_cast<int>(deck.parallel.virtual_stages),
                     deck.parallel.stage_layers);
  Prediction p;
  Kinds kinds;
  std::map<std::string, std::size_t> known;
  for (int stage = 0; stage < size[0]; ++stage) {
    const auto [place, fresh] = known.emplace(kind_of(partition, deck.parallel, stage), p.stages.size());
    // Of one kind the first stage has the most micro-batches in flight.
    if (fresh) p.stages.push_back(plan_stage(deck, model, {size, {stage, 0, 0, 0}}, kind, cost, most_memory));
    kinds.of_stage.push_back(place->second);
    if (fresh) note_memory(p, cost.machine().reserve);
    if (most_memory > 0 && p.memory > most_memory) return p;
  }
  const GridPoint origin{size, {}};
  note_time(p, deck, kinds, origin, cost);
  const double tokens = static_cast<double>(deck.batch.global * deck.model.sequence) / origin.n_ranks();
  p.tokens_per_second = tokens / p.step;
  p.flops = flops_per_token(model).causal * p.tokens_per_second;
  const auto& peaks = cost.machine().peak;
  const auto sixteen = peaks.find("bf16"), own = peaks.find(deck.precision.compute);
  p.mfu = p.flops / (sixteen != peaks.end() ? sixteen->second : own->second);
  return p;
}

}  // namespace trireme
