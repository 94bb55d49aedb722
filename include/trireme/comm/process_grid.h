#pragma once
// The process grid: one 4-d array of ranks, axes pp, dp, cp, tp from outermost to innermost, so that tensor-parallel
// ranks are neighbours in a node. GridPoint is plain data: sharding and planning work for rank 511 of 512 without MPI.

#include <array>
#include <memory>
#include <string>

#include "trireme/comm/communicator.h"

namespace trireme {

enum class Axis : std::uint8_t { pp, dp, cp, tp };
inline constexpr int k_n_axes = 4;
const char* name_of(Axis axis);

struct GridPoint {
  std::array<int, k_n_axes> size{1, 1, 1, 1}, coord{0, 0, 0, 0};
  int n(Axis a) const { return size[static_cast<std::size_t>(a)]; }
  int at(Axis a) const { return coord[static_cast<std::size_t>(a)]; }
  int n_ranks() const { return size[0] * size[1] * size[2] * size[3]; }
};
GridPoint point_of(const std::array<int, k_n_axes>& size, int rank);  // row-major; the only place that knows the order
int rank_of(const GridPoint& point);
std::string to_string(const GridPoint& point);  // "pp2 dp2 cp1 tp2"

// The communicators of this rank. Each is the set of ranks that differ from here only in the named axes.
class ProcessGrid {
 public:
  // world.size() must equal the product of the sizes. Collective.
  ProcessGrid(std::unique_ptr<Communicator> world, const std::array<int, k_n_axes>& size);
  // A grid that plans: every communicator is a plan communicator and counts its bytes in traffic().
  static ProcessGrid planned(const GridPoint& here);
  static ProcessGrid planned(const GridPoint& here, Meter& meter);  // and tells the meter, which must outlive it

  const GridPoint& here() const { return here_; }
  Communicator& world() const { return *world_; }
  Communicator& along(Axis axis) const { return *along_[static_cast<std::size_t>(axis)]; }
  Communicator& replicas() const { return *replicas_; }  // {dp, cp}: hold the same weights, saw different tokens
  Communicator& ends() const { return *ends_; }  // first and last stage (tied embeddings); self on stages between

  // Bytes sent by this rank since construction, by communicator (planned grids only).
  struct Traffic {
    std::array<double, k_n_axes> along{};
    double replicas = 0, ends = 0, world = 0;
  };
  const Traffic& traffic() const { return *traffic_; }

 private:
  ProcessGrid() = default;
  static ProcessGrid planned(const GridPoint& here, Meter* meter);
  GridPoint here_;
  std::unique_ptr<Traffic> traffic_ = std::make_unique<Traffic>();
  std::unique_ptr<Communicator> world_;
  std::array<std::unique_ptr<Communicator>, k_n_axes> along_;
  std::unique_ptr<Communicator> replicas_, ends_;
};

}  // namespace trireme
