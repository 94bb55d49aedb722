#include "trireme/model/tensor_parallel.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

Shape with_rows(Shape shape, std::int64_t rows) {
  shape[0] = rows;
  return shape;
}

// Communicators move bytes; FP8 is nothing to them.
Tensor as_bytes(Tensor x) {
  x.dtype = DType::u8;
  return x;
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

Entered::Entered(Context& c, const Operand& x_own) : c_(c), all_(x_own) {
  if (!scattered(c)) return;
  Communicator& tp = c.grid.along(Axis::tp);
  const auto whole = [&](const Tensor& own) {
    return own ? c.scratch.take(own.dtype, with_rows(own.shape, own.rows() * tp.size())) : Tensor{};
  };
  all_ = {whole(x_own.tensor), whole(x_own.rows), x_own.scale};
  Tensor scales;  // gathered where they differ from token to token
  if (x_own.rows) {
    const Scaling scaling = scaling_of(x_own.rows, x_own.scale);
    if (scaling == Scaling::row) scales = all_.scale = whole(x_own.scale);
    if (scaling == Scaling::block) {
      scales = scale_parts_ = whole(x_own.scale);
      all_.scale = c.scratch.take(DType::f32, scale_shape(scaling, all_.rows.rows(), all_.rows.columns()));
    }
  }
  ticket_ = tp.background([&](Communicator& lane) {
    if (x_own.tensor) lane.all_gather(all_.tensor, x_own.tensor);
    if (x_own.rows) lane.all_gather(as_bytes(all_.rows), as_bytes(x_own.rows));
    if (scales) lane.all_gather(scales, x_own.scale);
  });
}

Operand Entered::wait() {
  ticket_.wait();
  const std::int64_t n = all_.scale ? all_.scale.rows() : 0;
  for (std::int64_t first = 0; scale_parts_ && first < scale_parts_.rows(); first += n) {
    const std::int64_t tokens = scale_parts_.columns();
    c_.be.copy(all_.scale.slice_columns(first / n * tokens, tokens), scale_parts_.slice_rows(first, n));
  }
  scale_parts_ = Tensor{};
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
