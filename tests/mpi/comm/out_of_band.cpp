#include "trireme/comm/out_of_band.h"

#include <set>
#include <thread>

#include "catch.h"
#include "job.h"

using namespace trireme;
using trireme::test::job;

TEST_CASE("out of band: rank 0 gets the last text of every sender beside MPI, and they learn that it does") {
  const MpiSession& session = job().session;
  OutOfBand wires(session, OutOfBand::Part::sends);
  const std::string large(300000, 'x');

  if (session.rank() != 0) {
    CHECK(wires.post("old"));
    CHECK(wires.post(std::to_string(session.rank()) + large));
  }
  std::set<std::string> texts;
  for (int i = 0; session.rank() == 0 && i < 2000 && static_cast<int>(texts.size()) < session.size() - 1; ++i) {
    texts.clear();
    for (const OutOfBand::Message& message : wires.latest()) {
      if (message.text != "old") texts.insert(message.text);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  session.any(false);

  if (session.rank() != 0) CHECK(wires.silence() < 10);
  for (int rank = 1; session.rank() == 0 && rank < session.size(); ++rank) {
    CHECK(texts.count(std::to_string(rank) + large) == 1);
  }
}

TEST_CASE("out of band: without senders nothing is connected and nothing is sent") {
  OutOfBand wires(job().session, OutOfBand::Part::none);

  CHECK_FALSE(wires.post("text"));
  CHECK(wires.latest().empty());
  CHECK(wires.silence() == 0);
}
