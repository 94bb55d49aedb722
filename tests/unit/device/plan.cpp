#include <stdexcept>

#include "../../../src/device/plan/flops.h"
#include "attention_case.h"
#include "trireme/base/check.h"

using namespace trireme;

TEST_CASE("visible pairs counted at once are those counted one by one") {
  AttentionShape s = attention_shape(1, 1, 1, 1, 1);
  s.q_rows = GENERATE(0, 1, 7, 20);
  s.k_rows = GENERATE(0, 1, 5, 20);
  s.first_q = GENERATE(0, 3, 19, 40);
  s.first_k = GENERATE(0, 4, 30);
  s.window = GENERATE(0, 1, 3, 100);
  AttentionCase c;
  c.shape = s;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < s.q_rows; ++i) {
    for (std::int64_t j = 0; j < s.k_rows; ++j) pairs += sees(c, 0, i, j);
  }

  CHECK(visible_pairs(s) == static_cast<double>(pairs));
}

TEST_CASE("the plan backend counts what the CPU backend counts") {
  Bench bench(DType::f32);
  const auto plan = make_plan_backend(DeviceKind::cpu);
  const Tensor x = bench.random({6, 5}), w = bench.random({4, 5}), y = bench.nan({6, 4}), dw = bench.nan({4, 5});
  const AttentionCase c = make_attention(bench, attention_shape(2, 20, 4, 2, 8), DType::f32);
  const Tensor dq = bench.nan(c.q.shape), dk = bench.nan(c.k.shape), dv = bench.nan(c.v.shape);

  for (Backend* backend : {&bench.backend(), plan.get()}) {
    backend->counters() = {};
    backend->matmul(y, x, w, Tensor{});
    backend->matmul_dx(x, y, w);
    backend->matmul_dw(dw, y, x, Into::replace);
    backend->attention(c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape);
    backend->attention_backward(dq, dk, dv, c.out, c.out, c.lse, c.q, c.k, c.v, Tensor{}, c.shape, Into::replace);
  }

  CHECK(plan->counters().matmul_flops == 3 * 2 * 6 * 5 * 4);
  CHECK(plan->counters().attention_flops == (4 + 10) * 8 * 4 * 2 * (20 * 21 / 2));
  CHECK(bench->counters().matmul_flops == plan->counters().matmul_flops);
  CHECK(bench->counters().attention_flops == plan->counters().attention_flops);
}

TEST_CASE("the plan backend reads zeros and touches no device memory") {
  const auto plan = make_plan_backend(DeviceKind::cuda);
  Arena arena(*plan, "plan", std::size_t{1} << 60);
  const Tensor x = arena.take(DType::f32, {3});
  std::vector<float> host{1, 2, 3};

  plan->fill(x, 7);
  plan->to_device(x, host.data());
  plan->to_host(host.data(), x);

  CHECK(host == std::vector<float>{0, 0, 0});
  CHECK(make_plan_backend(DeviceKind::cpu)->workspace_bytes() == 0);
}

// What an H200 with cuDNN 9.14 reported: 130 MiB for the backward pass of 8 sequences of 2048 with 16 heads of 128, and
// 322 MiB where its results are added to f32.
TEST_CASE("the plan of a CUDA run counts the workspaces of the libraries") {
  const auto plan = make_plan_backend(DeviceKind::cuda);
  Arena arena(*plan, "plan", std::size_t{1} << 60);
  AttentionShape s = attention_shape(8, 2048, 16, 16, 128);
  const std::int64_t T = 8 * 2048, C = 16 * 128;
  const auto tensor = [&](DType dtype) { return arena.take(dtype, {T, C}); };
  const Tensor lse = arena.take(DType::f32, {8 * 16, 2048}), x = tensor(DType::bf16), wide = tensor(DType::f32);
  CHECK(plan->workspace_bytes() == std::size_t{64} << 20);

  plan->attention(x, lse, x, x, x, {}, s);
  CHECK(plan->workspace_bytes() == std::size_t{64} << 20);
  plan->attention_backward(x, x, x, x, x, lse, x, x, x, {}, s, Into::replace);
  CHECK(plan->workspace_bytes() == std::size_t{130} << 20);
  plan->attention_backward(wide, wide, wide, x, x, lse, x, x, x, {}, s, Into::add);
  CHECK(plan->workspace_bytes() == std::size_t{322} << 20);
}

TEST_CASE("asking for a GPU where there is none names CUDA") {
  if (cuda_device_count() > 0) return;
  std::string text;

  try {
    make_cuda_backend(0, CudaOptions{});
  } catch (const Error& error) {
    text = error.what();
  }

  CHECK(text.find("CUDA") != std::string::npos);
}

TEST_CASE("the CPU backend knows how much memory a run may take") {
  Bench bench(DType::f32);

  CHECK(bench->memory_bytes() > std::size_t{1} << 20);
  CHECK(bench->memory_bytes() % 1024 == 0);
}

TEST_CASE("the CPU backend refuses integers as operands") {
  Bench bench(DType::f32);
  const Tensor ids = bench.ids({1, 2});

  CHECK_THROWS_AS(bench->scale(ids, 2), std::logic_error);
}
