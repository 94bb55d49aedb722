#include "trireme/model/tensor_parallel.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}

bool scattered(const Context& c) {
  return c.sequence_parallel && c.grid.along(Axis::tp).size() > 1;
}

}  // namespace

std::int64_t n_own_tokens(const Context& c, std::int64_t n_tokens) {
  return scattered(c) ? div_exact(n_tokens, c.grid.along(Axis::tp).size()) : n_tokens;
}

Tensor own_tokens(const Context& c, Tensor all_T) {
  if (!all_T || !scattered(c)) return all_T;
  const std::int64_t n = n_own_tokens(c, all_T.rows());
  return all_T.slice_rows(c.grid.along(Axis::tp).rank() * n, n);
}

Entered::Entered(Context& c, Tensor x_own) : all_(x_own) {
  if (!scattered(c)) return;
  Communicator& tp = c.grid.along(Axis::tp);
  all_ = c.scratch.take(x_own.dtype, with_rows(x_own.shape, x_own.rows() * tp.size()));
  ticket_ = tp.background([&](Communicator& lane) { lane.all_gather(all_, x_own); });
}

Tensor Entered::wait() {
  ticket_.wait();
  return all_;
}

Leaving::Leaving(Context& c, Tensor out_own, std::int64_t n_tokens) : c_(c), out_(out_own), partial_(out_own) {
  if (scattered(c)) partial_ = c.scratch.take(out_own.dtype, with_rows(out_own.shape, n_tokens));
}

bool Leaving::whole() const {
  return c_.grid.along(Axis::tp).size() == 1;
}

void Leaving::start() {
  Communicator& tp = c_.grid.along(Axis::tp);
  if (tp.size() == 1) return;
  ticket_ = tp.background([&](Communicator& lane) {
    if (scattered(c_)) lane.reduce_scatter(out_, partial_);
    if (!scattered(c_)) lane.all_reduce(partial_, Reduce::sum);
  });
}

void Leaving::wait() {
  ticket_.wait();
}

}  // namespace trireme
