#include <array>

#include "catch.h"
#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"
#include "trireme/device/backend.h"

using namespace trireme;

namespace {

using Values = std::array<float, 4>;

Tensor view(Values& x) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::f32, {4}};
}

}  // namespace

TEST_CASE("one rank alone copies where input and output are different memory") {
  const auto backend = make_cpu_backend(1);
  const auto self = make_self_communicator(*backend);
  Values source{1, 2, 3, 4}, gathered{}, scattered{}, shifted{}, in_background{};

  self->all_gather(view(gathered).as({2, 2}), view(source));
  self->reduce_scatter(view(scattered), view(source).as({2, 2}));
  self->shift(view(shifted), view(source));
  self->background([&](Communicator& lane) { lane.shift(view(in_background), view(source)); }).wait();

  CHECK(gathered == source);
  CHECK(scattered == source);
  CHECK(shifted == source);
  CHECK(in_background == source);
}

TEST_CASE("one rank alone leaves what is in place as it is") {
  const auto backend = make_cpu_backend(1);
  const auto self = make_self_communicator(*backend);
  Values x{1, 2, 3, 4};

  self->all_reduce(view(x), Reduce::sum);
  self->all_reduce(view(x), Reduce::max);
  self->all_gather(view(x), view(x));
  self->reduce_scatter(view(x), view(x));
  self->broadcast(view(x), 0);
  self->barrier();

  CHECK(x == Values{1, 2, 3, 4});
  CHECK((self->rank() == 0 && self->size() == 1));
}

TEST_CASE("one rank alone copies every dtype bit for bit") {
  const auto backend = make_cpu_backend(1);
  const auto self = make_self_communicator(*backend);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i64,
                            DType::i32, DType::u16, DType::u8}) {
    std::array<std::uint8_t, 16> in{}, out{0x3f, 0x80, 1, 2, 3, 0x3c, 5, 0x40, 7, 0x41, 9, 0x42, 11, 0x43, 13, 0x44};
    const auto count = static_cast<std::int64_t>(out.size() / size_of(dtype));
    INFO(name_of(dtype));

    self->shift({reinterpret_cast<std::byte*>(in.data()), dtype, {count}},
                {reinterpret_cast<std::byte*>(out.data()), dtype, {count}});

    CHECK(in == out);
  }
}

TEST_CASE("one rank alone has nobody to send to") {
  const auto backend = make_cpu_backend(1);
  const auto self = make_self_communicator(*backend);
  Values x{}, y{};

  CHECK_THROWS_AS(self->send(view(x), 0), std::logic_error);
  CHECK_THROWS_AS(self->recv(view(x), 0), std::logic_error);
  CHECK_THROWS_AS(self->broadcast(view(x), 1), std::logic_error);
  CHECK_THROWS_AS(self->shift(view(x), view(x)), std::logic_error);
  CHECK_THROWS_AS(self->all_gather(view(x), view(y).slice_rows(0, 2)), std::logic_error);
}

TEST_CASE("one rank alone splits into one rank alone") {
  const auto backend = make_cpu_backend(1);
  const auto part = make_self_communicator(*backend)->split(7, 3);

  CHECK((part->rank() == 0 && part->size() == 1));
}
