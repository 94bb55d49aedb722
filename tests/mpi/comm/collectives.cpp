// Exact collectives: small integers and ==, for every dtype, in host and staged memory, whole and in pieces.

#include <stdexcept>

#include "catch.h"
#include "job.h"
#include "trireme/base/check.h"

using namespace trireme;
using namespace trireme::test;

namespace {

const std::vector<std::int64_t> k_counts{1, 5, 64};

}  // namespace

TEST_CASE("all_reduce gives every rank the sum and the maximum") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    Field sum(dtype, n), max(dtype, n);
    sum.set([&](std::int64_t i) { return number(ranks.rank(), i); });
    max.set([&](std::int64_t i) { return number(ranks.rank(), i); });

    ranks.all_reduce(sum.tensor(), Reduce::sum);
    ranks.all_reduce(max.tensor(), Reduce::max);

    CHECK(sum.get() == listed(n, [&](std::int64_t i) { return sum_of_numbers(ranks.size(), i); }));
    CHECK(max.get() == listed(n, [&](std::int64_t i) { return max_of_numbers(ranks.size(), i); }));
  });
}

TEST_CASE("the maximum of negative numbers is negative") {
  for_each_case({3}, [](Communicator& ranks, DType dtype, std::int64_t n) {
    Field x(dtype, n);
    x.set([&](std::int64_t i) { return static_cast<double>(-1 - i - ranks.rank()); });

    ranks.all_reduce(x.tensor(), Reduce::max);

    CHECK(x.get() == listed(n, [](std::int64_t i) { return static_cast<double>(-1 - i); }));
  });
}

TEST_CASE("all_gather puts the ranks' parts in order, from elsewhere and in place") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    const int size = ranks.size(), rank = ranks.rank();
    Field all(dtype, size * n), all_in_place(dtype, size * n), mine(dtype, n);
    mine.set([&](std::int64_t i) { return number(rank, i); });
    all.set([](std::int64_t) { return 100.0; });
    all_in_place.set([&](std::int64_t i) { return i / n == rank ? number(rank, i % n) : 100.0; });

    ranks.all_gather(all.tensor(), mine.tensor());
    ranks.all_gather(all_in_place.tensor(), all_in_place.part(rank, n));

    const auto expected = listed(size * n, [&](std::int64_t i) { return number(static_cast<int>(i / n), i % n); });
    CHECK(all.get() == expected);
    CHECK(all_in_place.get() == expected);
    CHECK(mine.get() == listed(n, [&](std::int64_t i) { return number(rank, i); }));
  });
}

TEST_CASE("reduce_scatter gives each rank its part of the sum, elsewhere and in place") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    const int size = ranks.size(), rank = ranks.rank();
    Field all(dtype, size * n), all_in_place(dtype, size * n), mine(dtype, n);
    for (Field* x : {&all, &all_in_place}) x->set([&](std::int64_t i) { return number(rank, i); });
    mine.set([](std::int64_t) { return 100.0; });

    ranks.reduce_scatter(mine.tensor(), all.tensor());
    ranks.reduce_scatter(all_in_place.part(rank, n), all_in_place.tensor());

    const auto expected = listed(n, [&](std::int64_t i) { return sum_of_numbers(size, rank * n + i); });
    CHECK(mine.get() == expected);
    CHECK(values_of(all_in_place.part(rank, n)) == expected);
    CHECK(all.get() == listed(size * n, [&](std::int64_t i) { return number(rank, i); }));
  });
}

TEST_CASE("broadcast gives every rank the root's values, whichever the root") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    for (int root = 0; root < ranks.size(); ++root) {
      Field x(dtype, n);
      x.set([&](std::int64_t i) { return number(ranks.rank(), i); });

      ranks.broadcast(x.tensor(), root);

      CHECK(x.get() == listed(n, [&](std::int64_t i) { return number(root, i); }));
    }
  });
}

TEST_CASE("shift moves every rank's values one step to the right") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    const int left = (ranks.rank() + ranks.size() - 1) % ranks.size();
    Field in(dtype, n), out(dtype, n);
    out.set([&](std::int64_t i) { return number(ranks.rank(), i); });

    ranks.shift(in.tensor(), out.tensor());

    CHECK(in.get() == listed(n, [&](std::int64_t i) { return number(left, i); }));
    CHECK(out.get() == listed(n, [&](std::int64_t i) { return number(ranks.rank(), i); }));
  });
}

TEST_CASE("send and recv carry values down the line of ranks") {
  for_each_case(k_counts, [](Communicator& ranks, DType dtype, std::int64_t n) {
    Field x(dtype, n);
    x.set([](std::int64_t i) { return number(0, i); });
    if (ranks.rank() > 0) ranks.recv(x.tensor(), ranks.rank() - 1);

    x.set([values = x.get()](std::int64_t i) { return values[static_cast<std::size_t>(i)] + 1; });
    if (ranks.rank() + 1 < ranks.size()) ranks.send(x.tensor(), ranks.rank() + 1);

    CHECK(x.get() == listed(n, [&](std::int64_t i) { return number(0, i) + ranks.rank() + 1; }));
  });
}

TEST_CASE("bytes without arithmetic are gathered, shifted and broadcast") {
  for (const DType dtype : {DType::u8, DType::u16}) {
    Communicator& ranks = job().world();
    Field all(dtype, ranks.size() * 3), mine(dtype, 3), in(dtype, 3);
    mine.set([&](std::int64_t i) { return number(ranks.rank(), i); });

    ranks.all_gather(all.tensor(), mine.tensor());
    ranks.shift(in.tensor(), mine.tensor());
    ranks.broadcast(mine.tensor(), ranks.size() - 1);

    CHECK(values_of(all.part(ranks.size() - 1, 3)) == mine.get());
    CHECK(values_of(all.part((ranks.rank() + ranks.size() - 1) % ranks.size(), 3)) == in.get());
  }
}

TEST_CASE("messages beyond the eager limit arrive whole") {
  for (std::size_t i = 0; i < 2; ++i) {  // whole, host and staged
    Communicator& ranks = *job().worlds[i].ranks;
    const std::int64_t n = 60000;
    const int left = (ranks.rank() + ranks.size() - 1) % ranks.size();
    Field all(DType::f64, ranks.size() * n), in(DType::f64, n);
    all.set([&](std::int64_t k) { return number(ranks.rank(), k); });

    ranks.shift(in.tensor(), all.part(0, n));
    ranks.reduce_scatter(all.part(ranks.rank(), n), all.tensor());
    ranks.all_gather(all.tensor(), all.part(ranks.rank(), n));

    CHECK(in.get() == listed(n, [&](std::int64_t k) { return number(left, k); }));
    CHECK(all.get() == listed(ranks.size() * n, [&](std::int64_t k) { return sum_of_numbers(ranks.size(), k); }));
  }
}

TEST_CASE("sums of 16-bit floats are rounded to nearest even") {
  auto pair = job().world().split(job().world().rank() / 2, job().world().rank());
  const std::vector<double> bf16_terms{1, 2, 3, 5}, f16_terms{1, 2, 3, 5};
  Field b(DType::bf16, 4), h(DType::f16, 4);
  b.set([&](std::int64_t i) { return pair->rank() == 0 ? 256 : bf16_terms[static_cast<std::size_t>(i)]; });
  h.set([&](std::int64_t i) { return pair->rank() == 0 ? 2048 : f16_terms[static_cast<std::size_t>(i)]; });

  pair->all_reduce(b.tensor(), Reduce::sum);
  pair->all_reduce(h.tensor(), Reduce::sum);

  if (pair->size() == 2) {
    CHECK(b.get() == std::vector<double>{256, 258, 260, 260});  // 257, 258, 259, 261: a step is 2, ties go to even
    CHECK(h.get() == std::vector<double>{2048, 2050, 2052, 2052});
  }
}

TEST_CASE("sums have the same bits on every rank and every time") {
  Communicator& ranks = job().world();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n : {7, 3000, 50000}) {
      const auto noise = [&](std::int64_t i) {
        return 1.0 / static_cast<double>(3 + (i * 37 + ranks.rank() * 101) % 997);
      };
      Field first(dtype, n), again(dtype, n), of_rank_0(dtype, n);
      first.set(noise);
      again.set(noise);

      ranks.all_reduce(first.tensor(), Reduce::sum);
      ranks.all_reduce(again.tensor(), Reduce::sum);
      of_rank_0.set([values = first.get()](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
      ranks.broadcast(of_rank_0.tensor(), 0);

      CHECK(first.get() == again.get());
      CHECK(first.get() == of_rank_0.get());
    }
  }
}

TEST_CASE("empty tensors are no work") {
  for_each_case({0}, [](Communicator& ranks, DType dtype, std::int64_t) {
    Field x(dtype, 0), y(dtype, 0);

    ranks.all_reduce(x.tensor(), Reduce::sum);
    ranks.all_gather(x.tensor(), y.tensor());
    ranks.reduce_scatter(x.tensor(), y.tensor());
    ranks.broadcast(x.tensor(), 0);
    ranks.shift(x.tensor(), y.tensor());
    ranks.background([&](Communicator& lane) { lane.shift(x.tensor(), y.tensor()); }).wait();

    CHECK(x.get().empty());
  });
}

TEST_CASE("what the contract forbids is refused before anything is sent") {
  Communicator& ranks = job().world();
  Field x(DType::f32, 12), y(DType::f32, 12), other(DType::f64, 12), float8(DType::e4m3, 12);
  const Tensor pitched = x.tensor().as({3, 4}).slice_columns(0, 2);

  CHECK_THROWS_AS(ranks.all_reduce(pitched, Reduce::sum), std::logic_error);
  CHECK_THROWS_AS(ranks.shift(other.tensor(), x.tensor()), std::logic_error);
  CHECK_THROWS_AS(ranks.shift(x.tensor(), x.tensor()), std::logic_error);
  CHECK_THROWS_AS(ranks.send(x.tensor(), ranks.rank()), std::logic_error);
  CHECK_THROWS_AS(ranks.all_gather(x.tensor(), y.tensor().slice_rows(0, 5)), std::logic_error);
  if (ranks.size() > 1) CHECK_THROWS_AS(ranks.all_reduce(float8.tensor(), Reduce::sum), std::logic_error);
}

TEST_CASE("a message shorter than its receiver expects is an error", "[mpi]") {
  Communicator& ranks = job().world();
  Field x(DType::f32, 8);
  if (ranks.size() > 1 && ranks.rank() == 0) ranks.send(x.tensor().slice_rows(0, 5), 1);
  if (ranks.size() > 1 && ranks.rank() == 1) CHECK_THROWS_AS(ranks.recv(x.tensor(), 0), std::logic_error);
  ranks.barrier();
}

TEST_CASE("a message longer than its receiver expects is an error of the rank", "[mpi]") {
  auto pair = job().world().split(job().world().rank() / 2, 0);
  Field x(DType::f32, 8);
  if (pair->size() == 2 && pair->rank() == 0) pair->send(x.tensor(), 1);
  if (pair->size() == 2 && pair->rank() == 1) CHECK_THROWS_AS(pair->recv(x.tensor().slice_rows(0, 5), 0), Error);
  pair->barrier();
}
