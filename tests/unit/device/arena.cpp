#include "trireme/device/arena.h"

#include <string>
#include <utility>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

TEST_CASE("tensors of an arena are aligned and do not overlap") {
  const auto backend = make_cpu_backend(1);
  Arena arena(*backend, "scratch", 4096);

  const Tensor a = arena.take(DType::f32, {3, 5}), b = arena.take(DType::u8, {1}), c = arena.take(DType::f64, {64});

  CHECK(reinterpret_cast<std::uintptr_t>(a.data) % k_alignment == 0);
  CHECK(b.data - a.data == 256);
  CHECK(c.data - b.data == 256);
  CHECK(arena.mark() == 512 + 512);
}

TEST_CASE("a scope gives back what was taken in it and the peak remembers") {
  const auto backend = make_cpu_backend(1);
  Arena arena(*backend, "scratch", 4096);
  const Tensor kept = arena.take(DType::f32, {1});
  const std::byte* inside = nullptr;

  {
    ArenaScope scope(arena);
    inside = arena.take(DType::f32, {256}).data;
    CHECK(arena.mark() == 256 + 1024);
  }

  CHECK(arena.mark() == 256);
  CHECK(arena.peak() == 256 + 1024);
  CHECK(arena.take(DType::f32, {1}).data == inside);
  CHECK(kept.data != inside);
}

TEST_CASE("a full arena names itself, its size and the request") {
  const auto backend = make_cpu_backend(1);
  Arena arena(*backend, "saved", 1024);
  arena.take(DType::f32, {128});
  std::string text;

  try {
    arena.take(DType::bf16, {256, 2});
  } catch (const Error& error) {
    text = error.what();
    CHECK(error.code == Exit::usage);
  }

  CHECK(text.find("'saved'") != std::string::npos);
  CHECK(text.find("1.00 KiB") != std::string::npos);
  CHECK(text.find("bf16 [256, 2]") != std::string::npos);
  CHECK(arena.take(DType::f32, {128}));
  CHECK(arena.mark() == 1024);
}

TEST_CASE("an unbounded arena on the plan backend measures what a model takes") {
  const auto plan = make_plan_backend(DeviceKind::cuda);
  Arena arena(*plan, "persistent", std::size_t{1} << 60);
  Arena other(*plan, "saved", std::size_t{1} << 40);

  const Tensor big = arena.take(DType::f32, {std::int64_t{175} << 30, 4});

  CHECK(big);
  CHECK(reinterpret_cast<std::uintptr_t>(big.data) % k_alignment == 0);
  CHECK(arena.peak() == std::size_t{175} << 34);
  CHECK(other.take(DType::f32, {1}).data != big.data);
}

TEST_CASE("a moved arena owns its memory") {
  const auto backend = make_cpu_backend(1);
  Arena first(*backend, "first", 1024);
  const Tensor x = first.take(DType::f32, {4});

  Arena second = std::move(first);
  Arena third;
  third = std::move(second);

  CHECK(third.name() == "first");
  CHECK(third.mark() == 256);
  third.rewind(0);
  CHECK(third.take(DType::f32, {4}).data == x.data);
}

TEST_CASE("rewinding above the top is our bug") {
  const auto backend = make_cpu_backend(1);
  Arena arena(*backend, "scratch", 1024);

  CHECK_THROWS_AS(arena.rewind(1), std::logic_error);
}
