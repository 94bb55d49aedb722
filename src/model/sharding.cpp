#include "trireme/model/sharding.h"

#include "trireme/base/check.h"

namespace trireme {

Range Partition::layers(int stage, int chunk) const {
  const auto c = static_cast<std::size_t>(chunk * n_stages + stage);
  return {first[c], first[c + 1]};
}

Partition make_partition(int n_layers, int n_stages, int n_chunks, const std::vector<std::int64_t>& counts) {
  Partition partition{n_layers, n_stages, n_chunks, {0}};
  const int n = partition.n_global_chunks();
  require(counts.empty() || static_cast<int>(counts.size()) == n, "one layer count per chunk");
  const int rest = n_layers % n;
  const int first_longer = (n - rest) / 2;  // the ends also carry embedding and head: spare them
  for (int c = 0; c < n; ++c) {
    const bool longer = c >= first_longer && c < first_longer + rest;
    const int count =
        counts.empty() ? n_layers / n + (longer ? 1 : 0) : static_cast<int>(counts[static_cast<std::size_t>(c)]);
    partition.first.push_back(partition.first.back() + count);
  }
  require(partition.first.back() == n_layers, "the chunks hold every layer once");
  return partition;
}

bool holds(const ParamSpec& spec, int stage, int chunk, const Partition& partition) {
  const bool is_first = stage == 0 && chunk == 0;
  const bool is_last = stage == partition.n_stages - 1 && chunk == partition.n_chunks - 1;
  if (spec.layer == k_first_layer) return is_first;
  if (spec.layer == k_last_layer) return is_last;
  if (spec.layer == k_both_ends) return is_first || is_last;
  const Range layers = partition.layers(stage, chunk);
  return spec.layer >= layers.first && spec.layer < layers.last;
}

Box local_box(const ParamSpec& spec, const GridPoint& point, const Partition& partition) {
  Box box{spec.shape, spec.shape};
  for (int i = 0; i < spec.shape.rank; ++i) box.offset[i] = 0;
  bool held = false;
  for (int chunk = 0; chunk < partition.n_chunks; ++chunk)
    held = held || holds(spec, point.at(Axis::pp), chunk, partition);
  if (!held) {
    box.extent[0] = 0;
    return box;
  }
  if (spec.cut == Cut::none) return box;
  const int dim = static_cast<int>(spec.cut);
  const std::int64_t units = div_exact(spec.shape[dim], spec.cut_unit);
  const Range mine = cut(units, point.n(Axis::tp), point.at(Axis::tp));
  box.offset[dim] = mine.first * spec.cut_unit;
  box.extent[dim] = mine.count() * spec.cut_unit;
  return box;
}

bool counts(const ParamSpec& spec, const GridPoint& point, const Partition& partition, int chunk) {
  if (!holds(spec, point.at(Axis::pp), chunk, partition)) return false;
  if (spec.cut == Cut::none && point.at(Axis::tp) != 0) return false;
  const bool is_first = point.at(Axis::pp) == 0 && chunk == 0;
  return spec.layer != k_both_ends || is_first;
}

}  // namespace trireme
