#include <chrono>

#include "catch.h"
#include "lab.h"

using namespace trireme;

namespace {
constexpr RandomKey k_key{20240117, stream_of("parity"), 3};
}

TEST_CASE("copies round and leave the columns beside a view alone") {
  const std::int64_t n_columns = GENERATE(7, 64, 200);
  for (const DType to : k_storage) {
    for (const DType from : k_storage) {
      Lab lab;
      const Twin x = lab.normal(from, {13, 2 * n_columns}), y = lab.poisoned(to, {13, n_columns + 8});

      Lab::cpu().copy(y.cpu.slice_columns(0, n_columns), x.cpu.slice_columns(n_columns, n_columns));
      Lab::cuda().copy(y.cuda.slice_columns(0, n_columns), x.cuda.slice_columns(n_columns, n_columns));

      agree("elementwise", to, y.columns(0, n_columns));
      same_poison(y);
    }
  }
}

TEST_CASE("sums of two tensors of any storage types") {
  const std::int64_t n_columns = GENERATE(5, 96);
  for (const DType to : k_storage) {
    for (const DType from : k_storage) {
      Lab lab;
      const Twin x = lab.normal(from, {31, n_columns}), y = lab.normal(to, {31, n_columns + 16});

      Lab::cpu().add(y.cpu.slice_columns(8, n_columns), x.cpu);
      Lab::cuda().add(y.cuda.slice_columns(8, n_columns), x.cuda);

      agree("elementwise", to, y);
    }
  }
}

TEST_CASE("fill and scale reach every element and no other") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    Lab lab;
    const Twin x = lab.poisoned(dtype, {9, 77}), y = lab.normal(dtype, {1003});

    Lab::cpu().fill(x.cpu.slice_columns(3, 70), -1.5);
    Lab::cuda().fill(x.cuda.slice_columns(3, 70), -1.5);
    Lab::cpu().scale(y.cpu, 0.3);
    Lab::cuda().scale(y.cuda, 0.3);

    equal(x.columns(3, 70));
    same_poison(x);
    agree("elementwise", dtype, y);
  }
}

TEST_CASE("integers are filled and copied") {
  for (const DType dtype : {DType::i64, DType::i32, DType::u16, DType::u8}) {
    Lab lab;
    const Twin x = lab.integers(dtype, {5, 33}, 0, 200), y = lab.integers(dtype, {5, 33}, 0, 200);

    Lab::cpu().copy(y.cpu.slice_columns(1, 30), x.cpu.slice_columns(2, 30));
    Lab::cuda().copy(y.cuda.slice_columns(1, 30), x.cuda.slice_columns(2, 30));
    Lab::cpu().fill(x.cpu, 7);
    Lab::cuda().fill(x.cuda, 7);

    equal(y);
    equal(x);
  }
}

TEST_CASE("normal numbers depend on the global element only") {
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.poisoned(dtype, {17, 45});
    const NormalFill fill{k_key, 5, 11, 100, 0.02};

    Lab::cpu().fill_normal(x.cpu, fill);
    Lab::cuda().fill_normal(x.cuda, fill);

    agree("random", dtype, x);
  }
}

TEST_CASE("dropout keeps the same elements on both devices") {
  const std::int64_t n_columns = GENERATE(33, 64, 768);
  const double p = GENERATE(0.0, 0.1, 0.5);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.normal(dtype, {21, n_columns}), bias = lab.normal(dtype, {n_columns});
    const Twin residual = lab.normal(dtype, {21, n_columns}), rows = lab.integers(DType::i64, {21}, 0, 1000000000000);
    const Twin y = lab.poisoned(dtype, {21, n_columns}), plain = lab.poisoned(dtype, {21, n_columns});
    const Twin dx = lab.poisoned(dtype, {21, n_columns});

    Lab::cpu().dropout_add(y.cpu, x.cpu, bias.cpu, residual.cpu, rows.cpu, p, k_key);
    Lab::cuda().dropout_add(y.cuda, x.cuda, bias.cuda, residual.cuda, rows.cuda, p, k_key);
    Lab::cpu().dropout_add(plain.cpu, x.cpu, {}, {}, rows.cpu, p, k_key);
    Lab::cuda().dropout_add(plain.cuda, x.cuda, {}, {}, rows.cuda, p, k_key);
    Lab::cpu().dropout_backward(dx.cpu, x.cpu, rows.cpu, p, k_key);
    Lab::cuda().dropout_backward(dx.cuda, x.cuda, rows.cuda, p, k_key);

    agree("elementwise", dtype, y);
    agree("elementwise", dtype, plain);
    agree("elementwise", dtype, dx);
  }
}

TEST_CASE("dropout works in place on the residual") {
  Lab lab;
  const Twin x = lab.normal(DType::bf16, {8, 128}), residual = lab.normal(DType::bf16, {8, 128});

  Lab::cpu().dropout_add(residual.cpu, x.cpu, {}, residual.cpu, {}, 0.0, k_key);
  Lab::cuda().dropout_add(residual.cuda, x.cuda, {}, residual.cuda, {}, 0.0, k_key);

  agree("elementwise", DType::bf16, residual);
}

TEST_CASE("sums of all elements, added to what is there") {
  const std::int64_t n = GENERATE(1, 1001, 300007);
  for (const DType dtype : k_storage) {
    Lab lab;
    const Twin x = lab.normal(dtype, {n}, 1.0, 0.3);
    const Twin sum = lab.of(DType::f64, {1}, [](std::int64_t) { return 2.0; }), squares = lab.copy_of(sum);

    Lab::cpu().sum(sum.cpu, x.cpu);
    Lab::cuda().sum(sum.cuda, x.cuda);
    Lab::cpu().sum_of_squares(squares.cpu, x.cpu);
    Lab::cuda().sum_of_squares(squares.cuda, x.cuda);

    agree("sum", DType::f32, sum);
    agree("sum", DType::f32, squares);
  }
}

TEST_CASE("memory comes back as it was sent, in order with the work around it") {
  Lab lab;
  const std::int64_t n = 40 << 20;  // several rounds of the pinned ring
  std::vector<std::uint8_t> sent(static_cast<std::size_t>(n)), back(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
  Tensor x(Lab::cuda().allocate(sent.size()), DType::u8, {n});
  std::byte* const pinned = Lab::cuda().allocate_pinned(sent.size());

  Lab::cuda().to_device(x, sent.data());
  std::vector<std::uint8_t> again = sent;
  std::fill(sent.begin(), sent.end(), std::uint8_t{0});  // the caller may reuse its memory at once
  Lab::cuda().to_host(back.data(), x);
  Lab::cuda().to_host_later(pinned, x);
  Lab::cuda().wait(Lab::cuda().mark());

  CHECK(back == again);
  CHECK(std::equal(again.begin(), again.end(), reinterpret_cast<std::uint8_t*>(pinned)));
  Lab::cuda().release(x.data);
  Lab::cuda().release_pinned(pinned);
}

TEST_CASE("a dtype that the GPU does not compute in is refused by name") {
  Lab lab;
  const Twin x = lab.normal(DType::f64, {4, 8});

  CHECK_THROWS_WITH(Lab::cuda().activation(x.cuda, x.cuda, Activation::gelu_tanh), Catch::Contains("f64"));
}

TEST_CASE("marks tell the time that passed between them, however many came before") {
  using Clock = std::chrono::steady_clock;
  Lab lab;
  Backend& b = Lab::cuda();
  const Tensor x = lab.normal(DType::f32, {1000}).cuda;
  std::vector<std::int64_t> marks;
  const auto begin = Clock::now();

  for (int i = 0; i < 700; ++i) {
    b.scale(x, 1.0);
    marks.push_back(b.mark());
    b.wait(marks.back());
    if (i < 8) continue;
    const double earlier = b.time_of(marks[marks.size() - 8]), later = b.time_of(marks.back());
    REQUIRE(later > earlier);
    REQUIRE(later - earlier < std::chrono::duration<double>(Clock::now() - begin).count());
  }
}
