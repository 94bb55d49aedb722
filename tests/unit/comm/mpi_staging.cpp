#include "comm/mpi_staging.h"

#include <array>

#include "catch.h"
#include "trireme/device/backend.h"

using namespace trireme;

namespace {

using Values = std::array<double, 3>;

Tensor view(Values& x) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::f64, {3}};
}

}  // namespace

TEST_CASE("a returned pinned buffer is used again, a leased one is not") {
  const auto backend = make_cpu_backend(1);
  PinnedPool pool(*backend);

  PinnedPool::Buffer& first = pool.lease(100);
  PinnedPool::Buffer& second = pool.lease(1000);
  const std::byte *first_data = first.data, *second_data = second.data;
  CHECK(first_data != second_data);
  first.leased = second.leased = false;

  CHECK(pool.lease(90).data == first_data);
  CHECK(pool.lease(80).data == second_data);
  PinnedPool::Buffer& third = pool.lease(80);
  CHECK((third.data != first_data && third.data != second_data));
  for (PinnedPool::Buffer* buffer : {&first, &second, &third}) buffer->leased = false;
}

TEST_CASE("a pinned buffer that is too small grows instead of a new one being made") {
  const auto backend = make_cpu_backend(1);
  PinnedPool pool(*backend);

  PinnedPool::Buffer& small = pool.lease(10);
  small.leased = false;
  PinnedPool::Buffer& grown = pool.lease(5000);

  CHECK(&grown == &small);
  CHECK(grown.bytes >= 5000);
  grown.leased = false;
}

TEST_CASE("a staged flight delivers at its landing and gives its buffers back") {
  const auto backend = make_cpu_backend(1);
  PinnedPool pool(*backend);
  Turns turns;
  Flight flight(MPI_COMM_NULL, turns, *backend, Memory::staged, pool);
  Values source{1, 2, 3}, target{};

  flight.take_off();
  const std::byte* host = flight.filled(view(source));
  flight.deliver(view(target), host);

  CHECK(host != view(source).data);
  CHECK(target == Values{});
  CHECK_FALSE(flight.idle());
  flight.land();
  CHECK(target == source);
  CHECK(flight.idle());
  PinnedPool::Buffer& again = pool.lease(view(source).bytes());
  CHECK(again.data == host);
  again.leased = false;
}

TEST_CASE("in host memory MPI works on the tensor itself") {
  const auto backend = make_cpu_backend(1);
  PinnedPool pool(*backend);
  Turns turns;
  Flight flight(MPI_COMM_NULL, turns, *backend, Memory::host, pool);
  Values x{1, 2, 3};

  CHECK(flight.filled(view(x)) == view(x).data);
  CHECK(flight.empty(view(x)) == view(x).data);
}
