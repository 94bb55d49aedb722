#include "trireme/train/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "trireme/base/check.h"

namespace trireme {

namespace {

std::vector<double> to_doubles(Tensor x, Backend& backend) {
  const DType wide = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<double> values(static_cast<std::size_t>(x.count()));
  std::vector<float> narrow(wide == DType::f32 ? values.size() : 0);
  std::byte* memory = backend.allocate(values.size() * size_of(wide));
  const Tensor copy(memory, wide, x.shape);
  backend.copy(copy, x);
  backend.to_host(wide == DType::f32 ? static_cast<void*>(narrow.data()) : values.data(), copy);
  backend.release(memory);
  std::copy(narrow.begin(), narrow.end(), values.begin());
  return values;
}

// values: elements [first, ..) of the part, in the row-major order of its box.
void add_elements(const ParamSpec& spec, const BucketPart& part, std::int64_t first, const std::vector<double>& values,
                  std::vector<double>& global) {
  const bool matrix = spec.shape.rank == 2;
  const std::int64_t columns = spec.shape.columns(), box_columns = part.box.extent.columns();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t at = first + static_cast<std::int64_t>(i);
    const std::int64_t row = part.box.offset[0] + at / box_columns;
    const std::int64_t column = (matrix ? part.box.offset[1] : 0) + at % box_columns;
    global[static_cast<std::size_t>(row * columns + column)] += values[i];
  }
}

}  // namespace

void add_gradient_share(Engine& engine, ParamId id, const Communicator& replicas, Backend& backend,
                        std::vector<double>& global) {
  const ParamSpec& spec = engine.params().table()[id];
  for (const Bucket& bucket : engine.params().buckets()) {
    if (!bucket.counts || (engine.zero() == Zero::off && replicas.rank() != 0)) continue;
    const Range own = owned_range(bucket, replicas, engine.zero());
    for (const BucketPart& part : bucket.parts) {
      const std::int64_t first = std::max(own.first, part.offset),
                         last = std::min(own.last, part.offset + part.box.count());
      if (part.id != id || first >= last) continue;
      const std::vector<double> values = to_doubles(bucket.grad.slice_rows(first, last - first), backend);
      add_elements(spec, part, first - part.offset, values, global);
    }
  }
}

double worse(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::infinity();
  return std::max(a, b);
}

double relative_difference(double ours, double theirs) {
  return ours == theirs ? 0 : std::abs(ours - theirs) / std::abs(theirs);
}

GradientDifference compare(const ParamSpec& spec, const std::vector<double>& ours, const std::vector<double>& theirs) {
  require(ours.size() == theirs.size(), "gradients of one parameter have one size");
  GradientDifference result{spec.name, spec.layer, 0, 0};
  for (std::size_t i = 0; i < ours.size(); ++i) {
    result.difference = worse(result.difference, std::abs(ours[i] - theirs[i]));
    result.largest = worse(result.largest, std::abs(theirs[i]));
  }
  return result;
}

std::vector<double> over_layers(const std::vector<GradientDifference>& differences) {
  std::map<int, double> largest;
  for (const GradientDifference& d : differences) largest[d.layer] = std::max(largest[d.layer], d.largest);
  std::vector<double> relative;
  for (const GradientDifference& d : differences) {
    relative.push_back(d.difference == 0 ? 0 : d.difference / largest[d.layer]);
  }
  return relative;
}

}  // namespace trireme
