#pragma once
// Everything one rank needs for a training step: memory, weights, pipeline, reduction, optimizer. It takes a batch and
// gives losses; it knows no files, no log and no clock. The same class runs on a plan backend to find out how much
// memory it needs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/deck/deck.h"
#include "trireme/model/model.h"
#include "trireme/train/adamw.h"
#include "trireme/train/gradients.h"
#include "trireme/train/pipeline.h"

namespace trireme {

// The micro-batches of one step on this rank, [n_micro * T] each. Empty vectors where a stage needs none.
struct HostBatch {
  int n_micro = 0;
  std::vector<std::int32_t> ids, targets;
  std::vector<std::int32_t> positions;   // [T]: of every micro-batch; with data.reset_positions [n_micro * T]
  std::vector<std::int32_t> doc_starts;  // with data.mask_documents
  std::vector<std::int64_t> rows;
  std::int64_t n_targets = 0;  // unmasked targets of the whole global batch, the same on every rank
};

// Capacities of the arenas in bytes; unlimited by default, for plan backends.
struct ArenaSizes {
  static constexpr std::size_t k_unlimited = std::size_t{1} << 60;
  std::size_t persistent = k_unlimited, scratch = k_unlimited;
  std::vector<std::size_t> slots;  // one per local chunk; empty: unlimited
};

struct StepNumbers {
  double loss_sum = 0;   // over all targets of the global batch
  double grad_norm = 0;  // before clipping; not finite: the step was skipped
  double time = 0;       // seconds on the device's clock at which they were known
  PhaseSeconds phases{};
};

struct UpdateSettings {
  double lr = 0, loss_scale = 1;
  std::int64_t update = 1;  // number of the optimizer update, from 1
  std::uint32_t step = 1;   // training step: key of dropout
};

enum class Wires : std::uint8_t { real, planned };

class Engine {
 public:
  Engine(const Deck& deck, const Model& model, const ProcessGrid& grid, Backend& backend, const ArenaSizes& sizes,
         Wires wires);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void initialise();  // weights from the seed, optimizer state zero

  // Each enqueues its work and returns a ticket for numbers(); at most two may be outstanding.
  int train(const HostBatch& batch, const UpdateSettings& settings);  // forward, backward, reduction, update
  // Called by every update() before weights and optimizer state change: whoever still copies them is waited for.
  void before_updates(std::function<void()> wait) { before_update_ = std::move(wait); }
  // For planners: told of each action of the schedule before it begins, and with null after the last.
  void before_actions(std::function<void(const Action*)> tell) { before_action_ = std::move(tell); }
  void watch(Timeline* timeline) { timeline_ = timeline; }  // gets a span of every phase; null: nobody does
  int gradients(const HostBatch& batch,
                const UpdateSettings& settings);  // the same without the update: they stay in params()
  void update(const UpdateSettings& settings);    // with the gradients of the last call of gradients()
  // Gradients of this rank alone, nothing is summed over replicas; returns this rank's loss sum (0 but on last stages).
  double local_gradients(const HostBatch& batch, const UpdateSettings& settings);
  int evaluate(const HostBatch& batch);                // loss only
  StepNumbers numbers(int ticket, double loss_scale);  // waits for the device

  // Norms of gradient and weights of the step that was trained last, by layer: before the blocks, each block, after
  // them. Collective; waits for the device.
  struct LayerNorms {
    double gradient = 0, weight = 0;
  };
  std::vector<LayerNorms> layer_norms(double loss_scale);

  // Memory in the order it is taken: (purpose, bytes).
  using MemoryUse = std::vector<std::pair<std::string, std::size_t>>;
  MemoryUse memory() const;
  ArenaSizes peaks() const;

  const Model& model() const { return model_; }
  ParamStore& params() {  // with all values arrived; whoever asks may change them
    params_->settle();
    if (fp8_) fp8_->weights_changed();
    return *params_;
  }
  AdamW& optimizer() { return *optimizer_; }
  const Pipeline& pipeline() const { return *pipeline_; }
  const Partition& partition() const { return partition_; }
  Zero zero() const { return zero_; }
  double pipeline_bytes() const { return pipeline_bytes_; }    // sent to neighbours; counted on planned wires only
  std::int64_t local_tokens() const { return local_tokens_; }  // of one micro-batch

 private:
  void take_inputs();
  void take_pipeline(const ArenaSizes& sizes, Wires wires);
  void note(const std::string& purpose);
  std::vector<MicroBatch> upload(const HostBatch& batch);
  Context context(std::uint32_t step, double dropout);
  void fill_rope_table();
  void rehearse();
  enum class Pass : std::uint8_t { forward, gradients, local_gradients };
  void run(const HostBatch& batch, const UpdateSettings& settings, Pass pass);
  int reduce_numbers();

  const Deck& deck_;
  const Model& model_;
  const ProcessGrid& grid_;
  Backend& backend_;
  Partition partition_;
  DType compute_;
  Zero zero_;
  Wires wires_;
  double pipeline_bytes_ = 0;
  std::int64_t local_tokens_ = 0, own_tokens_ = 0, max_micro_ = 0;
  Arena persistent_, scratch_;
  MemoryUse noted_;
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<Fp8Weights> fp8_;  // null: no layer is in fp8
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<Pipeline> pipeline_;
  Tensor ids_, targets_, positions_, doc_starts_, rows_, rope_;
  Tensor numbers_;        // f64 [2]: squared gradient norm, loss sum
  Tensor layer_squares_;  // f64 [layers + 2, 2]
  PhaseClock clock_;
  Timeline* timeline_ = nullptr;
  std::byte* pinned_ = nullptr;
  std::int64_t read_marks_[2] = {0, 0}, timed_[2] = {0, 0};  // by ticket; timed: number of clock_, 0: none
  std::function<void()> before_update_;
  std::function<void(const Action*)> before_action_;
  int n_reads_ = 0;
};

DType dtype_from(const std::string& precision);  // "bf16" -> DType::bf16

}  // namespace trireme
