#include "trireme/train/gradients.h"

#include <algorithm>

#include "trireme/device/backend.h"

namespace trireme {

namespace {

// Buckets on their way to other replicas at one time: enough to keep the wires busy, few enough for what MPI copies.
constexpr std::size_t k_in_flight = 2;

}  // namespace

Range owned_range(const Bucket& bucket, const Communicator& replicas, Zero zero) {
  return zero == Zero::on ? cut(bucket.size, replicas.size(), replicas.rank()) : Range{0, bucket.size};
}

GradientReducer::GradientReducer(ParamStore& params, const ProcessGrid& grid, Backend& backend, Zero zero)
    : params_(params), grid_(grid), backend_(backend), zero_(zero) {}

// A scattered sum leaves anything it likes outside the range this replica owns.
void GradientReducer::begin_step() {
  started_.assign(params_.buckets().size(), false);
  tickets_.clear();
  for (const Bucket& bucket : params_.buckets()) {
    if (bucket.accumulates) {
      backend_.fill(bucket.grad, 0);
      continue;
    }
    for (const Range& gap : bucket.gaps) backend_.fill(bucket.grad.slice_rows(gap.first, gap.count()), 0);
  }
}

void GradientReducer::passed(int chunk, int layer) {
  for (std::size_t i = 0; i < started_.size(); ++i) {
    const Bucket& bucket = params_.buckets()[i];
    // The copies of a tied embedding meet only when both ends are done: finish() sees to them.
    if (!started_[i] && bucket.chunk == chunk && bucket.lowest_layer >= layer && !bucket.at_both_ends) start(i);
  }
}

void GradientReducer::start(std::size_t index) {
  const Bucket& bucket = params_.buckets()[index];
  started_[index] = true;
  if (bucket.partial) grid_.along(Axis::tp).all_reduce(bucket.grad, Reduce::sum);
  if (bucket.at_both_ends) grid_.ends().all_reduce(bucket.grad, Reduce::sum);
  Communicator& replicas = grid_.replicas();
  if (replicas.size() == 1) return;
  const Range own = owned_range(bucket, replicas, zero_);
  if (tickets_.size() >= k_in_flight) tickets_[tickets_.size() - k_in_flight].wait();
  tickets_.push_back(replicas.background([&](Communicator& lane) {
    if (zero_ == Zero::on) lane.reduce_scatter(bucket.grad.slice_rows(own.first, own.count()), bucket.grad);
    if (zero_ == Zero::off) lane.all_reduce(bucket.grad, Reduce::sum);
  }));
}

void GradientReducer::finish() {
  for (std::size_t i = 0; i < started_.size(); ++i) {
    if (!started_[i]) start(i);
  }
  for (Ticket& ticket : tickets_) ticket.wait();
}

void GradientReducer::add_norm(Tensor norm_sq_1) const {
  const Communicator& replicas = grid_.replicas();
  if (zero_ == Zero::off && replicas.rank() != 0) return;
  for (const Bucket& bucket : params_.buckets()) {
    const Range own = owned_range(bucket, replicas, zero_);
    if (bucket.counts) backend_.sum_of_squares(norm_sq_1, bucket.grad.slice_rows(own.first, own.count()));
  }
}

// Sums go through MPI in pieces (src/comm/mpi.cpp), two at a time; of each it holds the sum, what comes in and what
// goes on.
std::size_t copies_inside_mpi(const ParamStore& params, int n_replicas) {
  if (n_replicas == 1) return 0;
  std::size_t all = 0;
  for (const Bucket& bucket : params.buckets()) all += bucket.grad.bytes();
  constexpr std::size_t k_piece = 256 << 10, k_at_a_time = 2, k_buffers = 3;
  return k_buffers * std::min(all, k_at_a_time * k_piece);
}

void GradientReducer::add_layer_norms(Tensor squares_L2) const {
  const Communicator& replicas = grid_.replicas();
  if (zero_ == Zero::off && replicas.rank() != 0) return;
  for (const Bucket& bucket : params_.buckets()) {
    const Range own = owned_range(bucket, replicas, zero_);
    for (const BucketPart& part : bucket.parts) {
      const std::int64_t first = std::max(own.first, part.offset);
      const std::int64_t last = std::min(own.last, part.offset + part.box.count());
      if (!bucket.counts || first >= last) continue;
      const ParamSpec& spec = params_.table()[part.id];
      const bool before = spec.layer == k_first_layer || spec.layer == k_both_ends;
      const std::int64_t row = before ? 0 : spec.layer == k_last_layer ? squares_L2.rows() - 1 : spec.layer + 1;
      const Tensor squares = squares_L2.slice_rows(row, 1).as({2});
      backend_.sum_of_squares(squares.slice_rows(0, 1), bucket.grad.slice_rows(first, last - first));
      backend_.sum_of_squares(squares.slice_rows(1, 1), bucket.value.slice_rows(first, last - first));
    }
  }
}

}  // namespace trireme
