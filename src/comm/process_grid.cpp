#include "trireme/comm/process_grid.h"

#include <initializer_list>

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::array<Axis, k_n_axes> k_axes{Axis::pp, Axis::dp, Axis::cp, Axis::tp};

// The same point with the named axes at zero: equal for exactly the ranks that differ in those axes only.
GridPoint origin_along(GridPoint point, std::initializer_list<Axis> axes) {
  for (const Axis axis : axes) point.coord[static_cast<std::size_t>(axis)] = 0;
  return point;
}

// Rank of the point inside the plane of the named axes, which keep their order: outermost first.
int rank_within(const GridPoint& point, std::initializer_list<Axis> axes) {
  int rank = 0;
  for (const Axis axis : axes) rank = rank * point.n(axis) + point.at(axis);
  return rank;
}

int size_within(const GridPoint& point, std::initializer_list<Axis> axes) {
  int size = 1;
  for (const Axis axis : axes) size *= point.n(axis);
  return size;
}

std::unique_ptr<Communicator> cut_out(Communicator& world, const GridPoint& here, std::initializer_list<Axis> axes) {
  return world.split(rank_of(origin_along(here, axes)), rank_within(here, axes));
}

bool is_end(const GridPoint& here) {
  const int stage = here.at(Axis::pp), n = here.n(Axis::pp);
  return n > 1 && (stage == 0 || stage == n - 1);
}

// Stages between take a color of their own, so that every rank joins the split.
std::unique_ptr<Communicator> cut_out_ends(Communicator& world, const GridPoint& here) {
  const int color = is_end(here) ? rank_of(origin_along(here, {Axis::pp})) : here.n_ranks() + rank_of(here);
  return world.split(color, here.at(Axis::pp));
}

// Ranks between neighbours on the innermost of the axes.
int stride_of(const GridPoint& point, Axis innermost) {
  int stride = 1;
  for (std::size_t i = static_cast<std::size_t>(innermost) + 1; i < k_n_axes; ++i) stride *= point.size[i];
  return stride;
}

std::unique_ptr<Communicator> planned_ends(const GridPoint& here, double* bytes, Meter* meter) {
  if (!is_end(here)) return make_plan_communicator(0, 1, bytes);
  const PlanWires wires{meter, stride_of(here, Axis::pp) * (here.n(Axis::pp) - 1)};
  return make_plan_communicator(here.at(Axis::pp) == 0 ? 0 : 1, 2, bytes, wires);
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr std::array<const char*, k_n_axes> names{"pp", "dp", "cp", "tp"};
  return names[static_cast<std::size_t>(axis)];
}

GridPoint point_of(const std::array<int, k_n_axes>& size, int rank) {
  GridPoint point;
  point.size = size;
  for (const int n : size) require(n > 0, "a size of the process grid is not positive");
  require(0 <= rank && rank < point.n_ranks(), "rank " + std::to_string(rank) + " lies outside " + to_string(point));
  for (std::size_t i = k_n_axes; i-- > 0;) {
    point.coord[i] = rank % size[i];
    rank /= size[i];
  }
  return point;
}

int rank_of(const GridPoint& point) {
  int rank = 0;
  for (std::size_t i = 0; i < k_n_axes; ++i) {
    require(0 <= point.coord[i] && point.coord[i] < point.size[i], "a grid point lies outside its grid");
    rank = rank * point.size[i] + point.coord[i];
  }
  return rank;
}

std::string to_string(const GridPoint& point) {
  std::string text;
  for (const Axis axis : k_axes) {
    if (!text.empty()) text += ' ';
    text += name_of(axis);
    text += std::to_string(point.n(axis));
  }
  return text;
}

ProcessGrid::ProcessGrid(std::unique_ptr<Communicator> world, const std::array<int, k_n_axes>& size) {
  here_ = point_of(size, world->rank());
  require(here_.n_ranks() == world->size(),
          to_string(here_) + " does not have the " + std::to_string(world->size()) + " ranks of the job");
  for (const Axis axis : k_axes) along_[static_cast<std::size_t>(axis)] = cut_out(*world, here_, {axis});
  replicas_ = cut_out(*world, here_, {Axis::dp, Axis::cp});
  ends_ = cut_out_ends(*world, here_);
  for (const Axis axis : k_axes) along_[static_cast<std::size_t>(axis)]->rename(name_of(axis));
  replicas_->rename("dp and cp");
  ends_->rename("tied ends");
  world_ = std::move(world);
}

ProcessGrid ProcessGrid::planned(const GridPoint& here) {
  return planned(here, nullptr);
}

ProcessGrid ProcessGrid::planned(const GridPoint& here, Meter& meter) {
  return planned(here, &meter);
}

ProcessGrid ProcessGrid::planned(const GridPoint& here, Meter* meter) {
  ProcessGrid grid;
  grid.here_ = here;
  Traffic& traffic = *grid.traffic_;
  const auto plan = [&here, meter](std::initializer_list<Axis> axes, double& bytes) {
    const PlanWires wires{meter, stride_of(here, *(axes.end() - 1))};
    return make_plan_communicator(rank_within(here, axes), size_within(here, axes), &bytes, wires);
  };
  for (const Axis axis : k_axes) {
    const auto i = static_cast<std::size_t>(axis);
    grid.along_[i] = plan({axis}, traffic.along[i]);
  }
  grid.replicas_ = plan({Axis::dp, Axis::cp}, traffic.replicas);
  grid.ends_ = planned_ends(here, &traffic.ends, meter);
  grid.world_ = make_plan_communicator(rank_of(here), here.n_ranks(), &traffic.world, {meter, 1});
  return grid;
}

}  // namespace trireme
