#include "trireme/train/hang.h"

#include <random>

#include "catch.h"

using namespace trireme;
using Catch::Matchers::Contains;

namespace {

constexpr double k_patience = 10;

// Rank `rank` on communicators 100 (all) and 200 + rank / 2 (pairs), with so many operations begun on each.
RankSight computing(int rank, std::int64_t n_all, std::int64_t n_pair) {
  RankSight s;
  s.rank = rank;
  s.host = "node" + std::to_string(rank / 4);
  s.since = 30;
  s.counts = {{100, "all", 4, n_all, n_all}, {static_cast<std::uint64_t>(200 + rank / 2), "tp", 2, n_pair, n_pair}};
  return s;
}

RankSight waiting(int rank, std::int64_t n_all, std::int64_t n_pair, std::size_t communicator) {
  RankSight s = computing(rank, n_all, n_pair);
  s.operation = Operation::all_reduce;
  s.communicator = s.counts[communicator].id;
  s.number = s.counts[communicator].n_main;
  s.bytes = 512;
  return s;
}

}  // namespace

TEST_CASE("hang: nobody who waits long, no report") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), computing(1, 4, 3)};
  sights[0].since = 9;

  CHECK_FALSE(hang_report(sights, k_patience).has_value());
}

TEST_CASE("hang: the rank that has not begun the collective is named, with what it did last") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), waiting(1, 5, 3, 0), computing(2, 4, 3), waiting(3, 5, 3, 0)};
  sights[2].last = "recv number 7";

  CHECK(first_to_blame(sights, k_patience) == 2);
  CHECK_THAT(*hang_report(sights, k_patience),
             Contains("did not arrive: rank 2 on node0: computes or reads for 30.0 s"));
  CHECK_THAT(*hang_report(sights, k_patience), Contains("last: recv number 7"));
  CHECK_THAT(*hang_report(sights, k_patience), Contains("waits 30.0 s in all_reduce number 5 on all"));
}

TEST_CASE("hang: through a chain of communicators the rank at its end is named") {
  // 0 and 1 wait for 3 on `all`; 3 waits for 2 on the pair; 2 computes.
  const std::vector<RankSight> sights{waiting(0, 5, 3, 0), waiting(1, 5, 3, 0), computing(2, 4, 2),
                                      waiting(3, 4, 3, 1)};

  CHECK(first_to_blame(sights, k_patience) == 2);
}

TEST_CASE("hang: a stopped process is named, wherever it stopped") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), waiting(1, 5, 3, 0), waiting(2, 5, 3, 0), computing(3, 5, 3)};
  sights[1].silent = 25;

  CHECK(first_to_blame(sights, k_patience) == 1);
  CHECK_THAT(*hang_report(sights, k_patience), Contains("did not arrive: rank 1 on node0: gives no sign of life"));
}

TEST_CASE("hang: background work names the rank that has not started its side") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 1), computing(1, 5, 2)};
  sights[0].operation = Operation::background;
  sights[0].number = -3;

  CHECK(first_to_blame(sights, k_patience) == 1);
}

TEST_CASE("hang: different operations under one number are shown") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), waiting(1, 5, 3, 0)};
  sights[1].operation = Operation::broadcast;

  CHECK_THAT(*hang_report(sights, k_patience), Contains("called different operations"));
}

TEST_CASE("hang: all on the device: the rank that queued less is behind") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), computing(1, 4, 3)};
  sights[0].operation = Operation::device;
  sights[0].communicator = 0;

  CHECK(first_to_blame(sights, k_patience) == 1);
}

TEST_CASE("hang: work on files has six times the patience") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), waiting(1, 5, 3, 0)};
  for (RankSight& s : sights) s.operation = Operation::files;
  sights[0].since = sights[1].since = 59;
  const bool early = hang_report(sights, k_patience).has_value();
  sights[0].since = 61;

  CHECK_FALSE(early);
  CHECK(hang_report(sights, k_patience).has_value());
}

TEST_CASE("hang: sights travel as text and come out the same; damaged text never breaks") {
  std::vector<RankSight> sights{waiting(0, 5, 3, 0), computing(1, 4, 3)};
  sights[0].host = "a \"host\" with spaces";
  const std::string text = pack(sights);
  const std::vector<RankSight> again = unpack_sights(text);

  REQUIRE(again.size() == 2);
  CHECK(pack(again) == text);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text.substr(0, random() % (text.size() + 1));
    for (std::size_t k = 0; k < 3 && !damaged.empty(); ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    hang_report(unpack_sights(damaged), k_patience);
  }
}
