// Communication beside the computation: every operation on the lane, in flight together, waited for in any order.

#include <stdexcept>

#include "catch.h"
#include "job.h"

using namespace trireme;
using namespace trireme::test;

namespace {

int left_of(const Communicator& ranks) {
  return (ranks.rank() + ranks.size() - 1) % ranks.size();
}

void set_numbers(Field& x, int rank) {
  x.set([rank](std::int64_t i) { return number(rank, i); });
}

std::vector<double> numbers(int rank, std::int64_t n) {
  return listed(n, [rank](std::int64_t i) { return number(rank, i); });
}

}  // namespace

TEST_CASE("collectives in the background give what they give in the foreground") {
  for_each_case({1, 5, 64}, [](Communicator& ranks, DType dtype, std::int64_t n) {
    const int size = ranks.size(), rank = ranks.rank();
    Field sum(dtype, n), max(dtype, n), mine(dtype, n), all(dtype, size * n), all_in_place(dtype, size * n);
    Field parts(dtype, size * n), parts_in_place(dtype, size * n), part(dtype, n), root(dtype, n);
    for (Field* x : {&sum, &max, &mine, &parts, &parts_in_place, &root}) set_numbers(*x, rank);
    all_in_place.set([&](std::int64_t i) { return number(rank, i % n); });

    Ticket ticket = ranks.background([&](Communicator& lane) {
      lane.all_reduce(sum.tensor(), Reduce::sum);
      lane.all_reduce(max.tensor(), Reduce::max);
      lane.all_gather(all.tensor(), mine.tensor());
      lane.all_gather(all_in_place.tensor(), all_in_place.part(rank, n));
      lane.reduce_scatter(part.tensor(), parts.tensor());
      lane.reduce_scatter(parts_in_place.part(rank, n), parts_in_place.tensor());
      lane.broadcast(root.tensor(), size - 1);
    });
    ticket.wait();

    const auto gathered = listed(size * n, [&](std::int64_t i) { return number(static_cast<int>(i / n), i % n); });
    const auto scattered = listed(n, [&](std::int64_t i) { return sum_of_numbers(size, rank * n + i); });
    CHECK(sum.get() == listed(n, [&](std::int64_t i) { return sum_of_numbers(size, i); }));
    CHECK(max.get() == listed(n, [&](std::int64_t i) { return max_of_numbers(size, i); }));
    CHECK(all.get() == gathered);
    CHECK(all_in_place.get() == gathered);
    CHECK(part.get() == scattered);
    CHECK(values_of(parts_in_place.part(rank, n)) == scattered);
    CHECK(root.get() == numbers(size - 1, n));
  });
}

TEST_CASE("a ring of shifts passes every rank's values to every rank") {
  for_each_case({64}, [](Communicator& ranks, DType dtype, std::int64_t n) {
    Field here(dtype, n), next(dtype, n);
    set_numbers(here, ranks.rank());
    Field *held = &here, *coming = &next;
    int owner = ranks.rank();

    for (int step = 0; step < ranks.size(); ++step) {
      Ticket ticket = ranks.background([&](Communicator& lane) { lane.shift(coming->tensor(), held->tensor()); });
      CHECK(held->get() == numbers(owner, n));
      ticket.wait();
      std::swap(held, coming);
      owner = (owner + ranks.size() - 1) % ranks.size();
    }

    CHECK(held->get() == numbers(ranks.rank(), n));
  });
}

TEST_CASE("large messages cross between neighbours without deadlock") {
  for (const World& world : job().worlds) {
    Communicator& ranks = *world.ranks;
    const std::int64_t n = world.name.find("pieces") == std::string::npos ? 60000 : 600;
    const int rank = ranks.rank(), size = ranks.size();
    Field mine(DType::f32, n), from_below(DType::f32, n), from_above(DType::f32, n);
    set_numbers(mine, rank);

    Ticket up = ranks.background([&](Communicator& lane) {
      if (rank + 1 < size) lane.send(mine.tensor(), rank + 1);
      if (rank > 0) lane.recv(from_below.tensor(), rank - 1);
    });
    Ticket down = ranks.background([&](Communicator& lane) {
      if (rank > 0) lane.send(mine.tensor(), rank - 1);
      if (rank + 1 < size) lane.recv(from_above.tensor(), rank + 1);
    });
    down.wait();
    up.wait();

    if (rank > 0) CHECK(from_below.get() == numbers(rank - 1, n));
    if (rank + 1 < size) CHECK(from_above.get() == numbers(rank + 1, n));
  }
}

TEST_CASE("messages of several works arrive in the order of the works, whatever the order of the waits") {
  for (const World& world : job().worlds) {
    Communicator& ranks = *world.ranks;
    constexpr int n_works = 5;
    std::vector<std::unique_ptr<Field>> in, out;
    std::vector<Ticket> tickets;
    for (int k = 0; k < n_works; ++k) {
      in.push_back(std::make_unique<Field>(DType::f32, 40));
      out.push_back(std::make_unique<Field>(DType::f32, 40));
      out.back()->set([&](std::int64_t i) { return 10.0 * ranks.rank() + k + static_cast<double>(i); });
    }

    for (int k = 0; k < n_works; ++k) {
      const auto i = static_cast<std::size_t>(k);
      tickets.push_back(ranks.background([&](Communicator& lane) { lane.shift(in[i]->tensor(), out[i]->tensor()); }));
    }
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) ticket->wait();

    for (int k = 0; k < n_works; ++k) {
      const auto expected =
          listed(40, [&](std::int64_t i) { return 10.0 * left_of(ranks) + k + static_cast<double>(i); });
      CHECK(in[static_cast<std::size_t>(k)]->get() == expected);
    }
  }
}

TEST_CASE("blocking operations between start and wait do not meet the background's messages") {
  for (const World& world : job().worlds) {
    Communicator& ranks = *world.ranks;
    Field in(DType::f64, 64), out(DType::f64, 64), blocking_in(DType::f64, 64), blocking_out(DType::f64, 64);
    set_numbers(out, ranks.rank());
    blocking_out.set([&](std::int64_t i) { return 50 + number(ranks.rank(), i); });

    Ticket ticket = ranks.background([&](Communicator& lane) { lane.shift(in.tensor(), out.tensor()); });
    ranks.shift(blocking_in.tensor(), blocking_out.tensor());
    ranks.barrier();
    ticket.wait();

    CHECK(in.get() == numbers(left_of(ranks), 64));
    CHECK(blocking_in.get() == listed(64, [&](std::int64_t i) { return 50 + number(left_of(ranks), i); }));
  }
}

TEST_CASE("a blocking recv does not take a message that was sent in the background before") {
  for (const World& world : job().worlds) {
    Communicator& ranks = *world.ranks;
    Field first(DType::f64, 8), second(DType::f64, 8);
    Ticket ticket;
    if (ranks.rank() == 0 && ranks.size() > 1) {
      set_numbers(first, 1);
      set_numbers(second, 2);
      ticket = ranks.background([&](Communicator& lane) { lane.send(first.tensor(), 1); });
      ranks.send(second.tensor(), 1);
    }
    if (ranks.rank() == 1) {
      ranks.recv(second.tensor(), 0);
      ticket = ranks.background([&](Communicator& lane) { lane.recv(first.tensor(), 0); });
    }
    ticket.wait();

    if (ranks.rank() == 1) CHECK(first.get() == numbers(1, 8));
    if (ranks.rank() == 1) CHECK(second.get() == numbers(2, 8));
  }
}

TEST_CASE("a short message in the background is an error when it is waited for", "[mpi]") {
  auto ranks = job().world().split(0, job().world().rank());
  Field x(DType::f32, 8);
  if (ranks->size() > 1 && ranks->rank() == 0) {
    ranks->background([&](Communicator& lane) { lane.send(x.part(0, 5), 1); }).wait();
  }
  if (ranks->size() > 1 && ranks->rank() == 1) {
    Ticket ticket = ranks->background([&](Communicator& lane) { lane.recv(x.tensor(), 0); });
    CHECK_THROWS_AS(ticket.wait(), std::logic_error);
  }
}

TEST_CASE("waiting twice for a ticket is waiting once") {
  Communicator& ranks = job().world();
  Field x(DType::i32, 3);
  x.set([](std::int64_t) { return 1; });

  Ticket ticket = ranks.background([&](Communicator& lane) { lane.all_reduce(x.tensor(), Reduce::sum); });
  ticket.wait();
  ticket.wait();

  CHECK(x.get() == std::vector<double>(3, ranks.size()));
}

TEST_CASE("background work does not nest") {
  Communicator& ranks = job().world();
  const auto nested = [](Communicator& lane) {
    Ticket inner = lane.background([](Communicator&) {});
    inner.wait();
  };
  if (ranks.size() > 1) CHECK_THROWS_AS(ranks.split(0, ranks.rank())->background(nested), std::logic_error);
}
