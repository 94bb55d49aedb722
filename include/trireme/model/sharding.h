#pragma once
// Which part of a parameter a grid point holds: pure functions of (spec, grid point, partition).

#include <vector>

#include "trireme/comm/process_grid.h"
#include "trireme/model/param_table.h"

namespace trireme {

// Layers to chunks. Chunk c of pipeline rank p is global chunk c * n_stages + p; layers are dealt in that order.
struct Partition {
  int n_layers = 1, n_stages = 1, n_chunks = 1;
  std::vector<int> first;  // first layer of each global chunk, and n_layers at the end
  Range layers(int stage, int chunk) const;
  int n_global_chunks() const { return n_stages * n_chunks; }
};
// counts: layers per global chunk, or empty for as even as possible (the remainder goes to the middle chunks).
Partition make_partition(int n_layers, int n_stages, int n_chunks, const std::vector<std::int64_t>& counts);

// True when (stage, chunk) owns or holds a copy of this parameter.
bool holds(const ParamSpec& spec, int stage, int chunk, const Partition& partition);
// This point's box of the global array (empty when another stage owns it); the whole shape when uncut.
Box local_box(const ParamSpec& spec, const GridPoint& point, const Partition& partition);
// True on exactly one holder among tp and pp copies: who counts it in norms and writes it.
bool counts(const ParamSpec& spec, const GridPoint& point, const Partition& partition, int chunk);

}  // namespace trireme
