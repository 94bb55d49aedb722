// What the session says about this process and its neighbours.

#include "catch.h"
#include "job.h"

using namespace trireme;
using namespace trireme::test;

TEST_CASE("rank 0's text reaches every rank") {
  const MpiSession& session = job().session;
  const std::string long_text(100000, 'x');

  CHECK(session.broadcast(session.rank() == 0 ? "a deck" : "something much longer") == "a deck");
  CHECK(session.broadcast(session.rank() == 0 ? long_text : "") == long_text);
  CHECK(session.broadcast("").empty());
}

TEST_CASE("one rank's yes is everybody's yes") {
  const MpiSession& session = job().session;

  for (int rank = 0; rank < session.size(); ++rank) CHECK(session.any(session.rank() == rank));
  CHECK_FALSE(session.any(false));
}

TEST_CASE("all ranks of one node are its local ranks") {
  const MpiSession& session = job().session;

  CHECK(session.local_rank() == session.rank());
  CHECK(session.local_size() == session.size());
  CHECK_FALSE(session.host().empty());
  CHECK((session.size() == 1 || launched_by_mpi()));
}

TEST_CASE("ranks of a node read in shared memory what the others wrote, and it starts as zeros") {
  const MpiSession& session = job().session;
  const auto memory = session.share_with_node(100);
  const auto value_of = [&](int local) { return static_cast<int>(*(memory->of(local) + 99)); };

  for (int i = 0; i < session.local_size(); ++i) CHECK(value_of(i) == 0);
  session.any(false);
  *(memory->of(session.local_rank()) + 99) = static_cast<std::byte>(session.local_rank() + 1);
  session.any(false);

  REQUIRE(memory->n_ranks() == session.local_size());
  for (int i = 0; i < session.local_size(); ++i) CHECK(value_of(i) == i + 1);
}

TEST_CASE("files get a handle of every communicator, of one rank too") {
  Communicator& world = job().world();
  auto alone = world.split(world.rank(), 0);

  CHECK(mpi_handle(world) != 0);
  CHECK(mpi_handle(*alone) != 0);
  CHECK((world.size() == 1 || mpi_handle(world) != mpi_handle(*alone)));
}
