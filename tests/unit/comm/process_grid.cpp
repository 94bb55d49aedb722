#include "trireme/comm/process_grid.h"

#include <vector>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

using Sizes = std::array<int, k_n_axes>;

std::vector<Sizes> many_sizes() {
  std::vector<Sizes> sizes{{16, 4, 1, 8}, {1, 1, 1, 1}, {3, 5, 7, 2}};
  for (int pp = 1; pp <= 4; ++pp) {
    for (int dp = 1; dp <= 3; ++dp) {
      for (int cp = 1; cp <= 3; ++cp) {
        for (int tp = 1; tp <= 4; ++tp) sizes.push_back({pp, dp, cp, tp});
      }
    }
  }
  return sizes;
}

Tensor fake(std::int64_t bytes) {
  return {reinterpret_cast<std::byte*>(std::uintptr_t{4096}), DType::u8, {bytes}};
}

}  // namespace

TEST_CASE("point_of and rank_of are inverse for every rank of many grids") {
  for (const Sizes& size : many_sizes()) {
    const int n_ranks = size[0] * size[1] * size[2] * size[3];
    for (int rank = 0; rank < n_ranks; ++rank) {
      const GridPoint point = point_of(size, rank);
      CHECK(rank_of(point) == rank);
      CHECK(point.n_ranks() == n_ranks);
      for (std::size_t axis = 0; axis < k_n_axes; ++axis) {
        CHECK((0 <= point.coord[axis] && point.coord[axis] < size[axis]));
      }
    }
  }
}

TEST_CASE("tensor-parallel ranks are neighbours, then cp, dp and pp") {
  const Sizes size{2, 3, 2, 4};
  const auto stride = [&](Axis axis) {
    GridPoint point = point_of(size, 0);
    point.coord[static_cast<std::size_t>(axis)] = 1;
    return rank_of(point);
  };

  CHECK(stride(Axis::tp) == 1);
  CHECK(stride(Axis::cp) == 4);
  CHECK(stride(Axis::dp) == 8);
  CHECK(stride(Axis::pp) == 24);
}

TEST_CASE("a grid point reads as its sizes") {
  CHECK(to_string(point_of({2, 2, 1, 2}, 5)) == "pp2 dp2 cp1 tp2");
  CHECK(std::string(name_of(Axis::cp)) == "cp");
}

TEST_CASE("points outside the grid are refused") {
  CHECK_THROWS_AS(point_of({2, 1, 1, 2}, 4), std::logic_error);
  CHECK_THROWS_AS(point_of({2, 1, 1, 2}, -1), std::logic_error);
  CHECK_THROWS_AS(point_of({2, 0, 1, 2}, 0), std::logic_error);
  GridPoint point = point_of({2, 1, 1, 2}, 0);
  point.coord = {0, 1, 0, 0};
  CHECK_THROWS_AS(rank_of(point), std::logic_error);
}

TEST_CASE("a planned grid knows rank and size of every communicator without other ranks") {
  const GridPoint here = point_of({4, 2, 3, 8}, rank_of({{4, 2, 3, 8}, {3, 1, 2, 5}}));
  const ProcessGrid grid = ProcessGrid::planned(here);

  CHECK((grid.along(Axis::pp).rank() == 3 && grid.along(Axis::pp).size() == 4));
  CHECK((grid.along(Axis::dp).rank() == 1 && grid.along(Axis::dp).size() == 2));
  CHECK((grid.along(Axis::cp).rank() == 2 && grid.along(Axis::cp).size() == 3));
  CHECK((grid.along(Axis::tp).rank() == 5 && grid.along(Axis::tp).size() == 8));
  CHECK((grid.replicas().rank() == 1 * 3 + 2 && grid.replicas().size() == 6));
  CHECK((grid.ends().rank() == 1 && grid.ends().size() == 2));
  CHECK((grid.world().rank() == rank_of(here) && grid.world().size() == 192));
}

TEST_CASE("only the first and the last of several stages meet at the ends") {
  const auto ends_size = [](int stages, int stage) {
    return ProcessGrid::planned({{stages, 1, 1, 1}, {stage, 0, 0, 0}}).ends().size();
  };

  CHECK(ends_size(1, 0) == 1);
  CHECK(ends_size(2, 0) == 2);
  CHECK(ends_size(2, 1) == 2);
  CHECK(ends_size(3, 0) == 2);
  CHECK(ends_size(3, 1) == 1);
  CHECK(ends_size(3, 2) == 2);
  CHECK(ProcessGrid::planned({{3, 1, 1, 1}, {0, 0, 0, 0}}).ends().rank() == 0);
}

TEST_CASE("planned traffic is kept apart by communicator, also after the grid has moved") {
  ProcessGrid first = ProcessGrid::planned({{2, 2, 2, 2}, {0, 0, 0, 0}});
  const ProcessGrid grid = std::move(first);

  grid.along(Axis::pp).send(fake(10), 1);
  grid.along(Axis::dp).all_reduce(fake(100), Reduce::sum);
  grid.along(Axis::cp).broadcast(fake(30), 0);
  grid.along(Axis::tp).all_gather(fake(400), fake(200));
  grid.replicas().all_reduce(fake(1000), Reduce::sum);
  grid.ends().all_reduce(fake(3000), Reduce::sum);
  grid.world().all_reduce(fake(16), Reduce::sum);

  const ProcessGrid::Traffic& traffic = grid.traffic();
  CHECK(traffic.along == std::array<double, k_n_axes>{10, 100, 30, 200});
  CHECK(traffic.replicas == 1500);
  CHECK(traffic.ends == 3000);
  CHECK(traffic.world == 30);
}
