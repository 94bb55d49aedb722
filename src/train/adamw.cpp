#include "trireme/train/adamw.h"

namespace trireme {

namespace {

DType state_dtype(const PrecisionDeck& precision) {
  return precision.compute == "fp64" || precision.optimizer == "fp64" ? DType::f64 : DType::f32;
}

}  // namespace

AdamW::AdamW(ParamStore& params, const ProcessGrid& grid, Backend& backend, const PrecisionDeck& precision, Zero zero,
             Arena& persistent)
    : params_(params), grid_(grid), backend_(backend), zero_(zero) {
  const DType dtype = state_dtype(precision);
  const DType moments = precision.moments == "bf16" ? DType::bf16 : dtype;
  for (const Bucket& bucket : params.buckets()) {
    State state;
    state.own = owned_range(bucket, grid.replicas(), zero);
    const Shape shape{state.own.count()};
    separate_master_ = bucket.value.dtype != dtype;
    state.master = bucket.value.slice_rows(state.own.first, state.own.count());
    if (separate_master_) state.master = persistent.take(precision.master == "remainder" ? DType::u16 : dtype, shape);
    state.m = persistent.take(moments, shape);
    state.v = persistent.take(moments, shape);
    states_.push_back(state);
  }
}

void AdamW::initialise() {
  for (State& state : states_) {
    backend_.fill(state.m, 0);
    backend_.fill(state.v, 0);
  }
  masters_from_weights();
}

void AdamW::masters_from_weights() {
  if (!separate_master_) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    const Tensor weights = params_.buckets()[i].value.slice_rows(state.own.first, state.own.count());
    if (state.master.dtype == DType::u16) backend_.fill(state.master, 0);
    if (state.master.dtype != DType::u16) backend_.copy(state.master, weights);
  }
}

void AdamW::step(const OptimizerDeck& deck, double lr, double grad_scale, std::int64_t t, std::uint64_t seed,
                 Tensor norm_sq_1) {
  AdamWStep step{lr, deck.beta1, deck.beta2, deck.eps, 0, t, grad_scale, deck.clip, {}, 0};
  for (std::size_t i = states_.size(); i-- > 0;) {
    const Bucket& bucket = params_.buckets()[i];
    const State& state = states_[i];
    const std::string name = "rounding." + params_.table()[bucket.parts.front().id].name;
    step.weight_decay = bucket.decay ? deck.weight_decay : 0;
    step.rounding = {seed, stream_of(name), static_cast<std::uint32_t>(t)};
    step.first_index = state.own.first;
    const Tensor value = bucket.value.slice_rows(state.own.first, state.own.count());
    const Tensor grad = bucket.grad.slice_rows(state.own.first, state.own.count());
    backend_.adamw({value, state.master, state.m, state.v, grad}, step, norm_sq_1);
    gather(i);
  }
}

void AdamW::share_weights() {
  for (std::size_t i = states_.size(); i-- > 0;) gather(i);
}

void AdamW::gather(std::size_t bucket) {
  Communicator& replicas = grid_.replicas();
  if (replicas.size() == 1 || zero_ == Zero::off) return;
  const Tensor all = params_.buckets()[bucket].value;
  const Tensor mine = all.slice_rows(states_[bucket].own.first, states_[bucket].own.count());
  params_.arriving(bucket, replicas.background([&](Communicator& lane) { lane.all_gather(all, mine); }));
}

std::size_t AdamW::bytes() const {
  std::size_t bytes = 0;
  for (const State& state : states_) {
    bytes += state.m.bytes() + state.v.bytes() + (separate_master_ ? state.master.bytes() : 0);
  }
  return bytes;
}

}  // namespace trireme
