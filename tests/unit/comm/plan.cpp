#include "catch.h"
#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"

using namespace trireme;

namespace {

Tensor fake(std::int64_t count, std::uintptr_t address = 4096) {
  return {reinterpret_cast<std::byte*>(address), DType::f32, {count}};
}

struct Plan {
  double bytes = 0;
  std::unique_ptr<Communicator> ranks;
  Plan(int rank, int size) : ranks(make_plan_communicator(rank, size, &bytes)) {}
};

}  // namespace

TEST_CASE("a plan counts the bytes that this rank would send in a ring") {
  const auto sent = [](int size, const std::function<void(Communicator&)>& f) {
    Plan plan(0, size);
    f(*plan.ranks);
    return plan.bytes;
  };

  CHECK(sent(4, [](Communicator& c) { c.all_reduce(fake(100), Reduce::sum); }) == 2 * 0.75 * 400);
  CHECK(sent(4, [](Communicator& c) { c.all_gather(fake(100), fake(25)); }) == 0.75 * 400);
  CHECK(sent(4, [](Communicator& c) { c.reduce_scatter(fake(25), fake(100)); }) == 0.75 * 400);
  CHECK(sent(4, [](Communicator& c) { c.shift(fake(100), fake(100, 8192)); }) == 400);
  CHECK(sent(4, [](Communicator& c) { c.broadcast(fake(100), 2); }) == 400);
  CHECK(sent(4, [](Communicator& c) { c.send(fake(100), 3); }) == 400);
  CHECK(sent(4, [](Communicator& c) { c.recv(fake(100), 3); }) == 0);
  CHECK(sent(4, [](Communicator& c) { c.barrier(); }) == 0);
}

TEST_CASE("a plan for one rank sends nothing") {
  Plan plan(0, 1);

  plan.ranks->all_reduce(fake(100), Reduce::sum);
  plan.ranks->all_gather(fake(100), fake(100, 8192));
  plan.ranks->reduce_scatter(fake(100), fake(100, 8192));
  plan.ranks->shift(fake(100), fake(100, 8192));
  plan.ranks->broadcast(fake(100), 0);

  CHECK(plan.bytes == 0);
}

TEST_CASE("a plan adds up calls, in the background too") {
  Plan plan(2, 3);

  plan.ranks->send(fake(5), 0);
  plan.ranks->background([](Communicator& lane) { lane.send(fake(7), 1); }).wait();

  CHECK(plan.bytes == 48);
  CHECK((plan.ranks->rank() == 2 && plan.ranks->size() == 3));
}

TEST_CASE("a plan refuses what a real communicator refuses") {
  Plan plan(1, 4);

  CHECK_THROWS_AS(plan.ranks->send(fake(5), 1), std::logic_error);
  CHECK_THROWS_AS(plan.ranks->recv(fake(5), 4), std::logic_error);
  CHECK_THROWS_AS(plan.ranks->broadcast(fake(5), -1), std::logic_error);
  CHECK_THROWS_AS(plan.ranks->all_gather(fake(21), fake(5)), std::logic_error);
  CHECK_THROWS_AS(plan.ranks->all_reduce(fake(20).as({4, 5}).slice_columns(1, 2), Reduce::sum), std::logic_error);
  CHECK_THROWS_AS(plan.ranks->split(0, 0), std::logic_error);
  CHECK_THROWS_AS(make_plan_communicator(4, 4, &plan.bytes), std::logic_error);
}
