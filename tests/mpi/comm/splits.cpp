// Who belongs to which communicator: splits, and every communicator of the process grid for every grid of this many
// ranks.

#include <set>

#include "catch.h"
#include "job.h"
#include "trireme/comm/process_grid.h"

using namespace trireme;
using namespace trireme::test;

namespace {

// The world ranks of the communicator's members, in its order.
std::vector<double> members(Communicator& ranks) {
  Field all(DType::i32, ranks.size()), mine(DType::i32, 1);
  mine.set([](std::int64_t) { return job().session.rank(); });
  ranks.all_gather(all.tensor(), mine.tensor());
  return all.get();
}

// By the definition in process_grid.h: the ranks that differ from here only in the named axes, in world order.
std::vector<double> expected_members(const GridPoint& here, const std::set<Axis>& axes) {
  std::vector<double> ranks;
  for (int rank = 0; rank < here.n_ranks(); ++rank) {
    const GridPoint there = point_of(here.size, rank);
    bool member = true;
    for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp}) {
      member = member && (axes.count(axis) > 0 || there.at(axis) == here.at(axis));
    }
    if (member) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<double> expected_ends(const GridPoint& here) {
  const std::vector<double> line = expected_members(here, {Axis::pp});
  const int last = here.n(Axis::pp) - 1;
  const bool is_end = last > 0 && (here.at(Axis::pp) == 0 || here.at(Axis::pp) == last);
  if (is_end) return {line.front(), line.back()};
  return {static_cast<double>(rank_of(here))};
}

// A world of all ranks for a grid to own.
std::unique_ptr<Communicator> whole() {
  return job().world().split(0, job().session.rank());
}

std::vector<std::array<int, k_n_axes>> grids_of(int n_ranks) {
  std::vector<std::array<int, k_n_axes>> grids;
  for (int pp = 1; pp <= n_ranks; ++pp) {
    for (int dp = 1; pp * dp <= n_ranks; ++dp) {
      for (int cp = 1; pp * dp * cp <= n_ranks; ++cp) {
        const int tp = n_ranks / (pp * dp * cp);
        if (pp * dp * cp * tp == n_ranks) grids.push_back({pp, dp, cp, tp});
      }
    }
  }
  return grids;
}

}  // namespace

TEST_CASE("split groups by color and orders by key") {
  for (const World& world : job().worlds) {
    const int rank = world.ranks->rank(), size = world.ranks->size();
    auto part = world.ranks->split(rank % 2, size - rank);

    std::vector<double> expected;
    for (int r = size - 1; r >= 0; --r) {
      if (r % 2 == rank % 2) expected.push_back(r);
    }
    CHECK(members(*part) == expected);
    CHECK(expected[static_cast<std::size_t>(part->rank())] == rank);
  }
}

TEST_CASE("a split of a split still knows its members") {
  Communicator& world = job().world();
  auto half = world.split(world.rank() % 2, world.rank());
  auto quarter = half->split(half->rank() % 2, half->rank());

  for (const double member : members(*quarter)) CHECK(static_cast<int>(member) % 4 == world.rank() % 4);
}

TEST_CASE("a rank split off alone has a communicator that copies") {
  Communicator& world = job().world();
  auto alone = world.split(world.rank(), 0);
  Field in(DType::f32, 3), out(DType::f32, 3);
  out.set([](std::int64_t i) { return number(1, i); });

  alone->shift(in.tensor(), out.tensor());

  CHECK(alone->size() == 1);
  CHECK(in.get() == out.get());
}

TEST_CASE("the grid's communicators hold the ranks that differ in their axes, for every grid") {
  for (const auto& size : grids_of(job().session.size())) {
    ProcessGrid grid(whole(), size);
    const GridPoint& here = grid.here();
    INFO(to_string(here) << ", rank " << job().session.rank());

    for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp}) {
      CHECK(members(grid.along(axis)) == expected_members(here, {axis}));
      CHECK(grid.along(axis).rank() == here.at(axis));
    }
    CHECK(members(grid.replicas()) == expected_members(here, {Axis::dp, Axis::cp}));
    CHECK(members(grid.ends()) == expected_ends(here));
    CHECK(grid.world().rank() == rank_of(here));
  }
}

TEST_CASE("a planned grid has the ranks and sizes of the real one") {
  for (const auto& size : grids_of(job().session.size())) {
    ProcessGrid real(whole(), size);
    ProcessGrid planned = ProcessGrid::planned(real.here());

    const auto same = [](const Communicator& a, const Communicator& b) {
      CHECK(a.rank() == b.rank());
      CHECK(a.size() == b.size());
    };
    for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp}) same(planned.along(axis), real.along(axis));
    same(planned.replicas(), real.replicas());
    same(planned.ends(), real.ends());
    same(planned.world(), real.world());
  }
}

TEST_CASE("a grid of another size than the job is refused on every rank") {
  CHECK_THROWS(ProcessGrid(whole(), {job().session.size() + 1, 1, 1, 1}));
}
