#include "trireme/train/cost.h"

#include "catch.h"
#include "trireme/base/check.h"
#include "trireme/train/step_clock.h"

using namespace trireme;

namespace {

// 100 TFLOP/s, 1 TB/s; products at half their ideal speed when 1024 tokens, at a quarter when 64.
Machine machine() {
  Machine m;
  m.file = "test.toml";
  m.gpus_per_node = 4;
  m.memory = 1e10;
  m.peak["bf16"] = 100e12;
  for (int i = 0; i < k_n_passes; ++i) m.passes[name_of(static_cast<Pass>(i))] = 1e12;
  for (const auto& [tokens, slower] : {std::pair{1024, 2.0}, std::pair{64, 4.0}}) {
    const double flops = 2.0 * tokens * 1024 * 1024, bytes = 2.0 * (2.0 * tokens * 1024 + 1024 * 1024);
    const double rate = flops / (slower * (flops / 100e12 + bytes / 1e12));
    m.gemm["bf16"].push_back({tokens, 1024, 1024, rate, rate, tokens == 64 ? 0 : rate});
  }
  m.attention["bf16"] = {{64, 1024, 10e12, 5e12}, {128, 4096, 40e12, 20e12}};
  for (int i = 0; i < k_n_exchanges; ++i) {
    m.node[name_of(static_cast<ExchangeKind>(i))] = {10e-6, 100e9};
    m.network[name_of(static_cast<ExchangeKind>(i))] = {20e-6, 10e9};
  }
  return m;
}

double ideal(std::int64_t T) {
  const double tokens = static_cast<double>(T);
  return 2.0 * tokens * 1024 * 1024 / 100e12 + 2.0 * (2.0 * tokens * 1024 + 1024 * 1024) / 1e12;
}

}  // namespace

TEST_CASE("a measured product takes its measured time, one between lies between") {
  const Machine m = machine();
  const Cost cost(m, "bf16");
  const auto excess = [&](std::int64_t T, ProductKind kind) {
    return cost.product({kind, T, 1024, 1024, DType::bf16}) / ideal(T);
  };
  CHECK(excess(1024, ProductKind::forward) == Approx(2).epsilon(1e-9));
  CHECK(excess(64, ProductKind::dx) == Approx(4).epsilon(1e-9));
  CHECK(excess(256, ProductKind::forward) == Approx(3).epsilon(1e-9));  // as far from both
  CHECK(excess(512, ProductKind::forward) < 3);
  CHECK(excess(512, ProductKind::forward) > 2);
  // 10 and 14 octaves away
  const double near = 1 / 1e4, far = 1 / 38416.0;
  CHECK(excess(1 << 20, ProductKind::forward) == Approx((2 * near + 4 * far) / (near + far)).epsilon(1e-6));
  CHECK(excess(64, ProductKind::dw) == Approx(2).epsilon(1e-9));  // 0 is not measured
  CHECK(cost.product({ProductKind::dw, 0, 8, 8, DType::bf16}) == 0);
}

TEST_CASE("launches and the power limit are added to what the table says") {
  Machine m = machine();
  const double before = Cost(m, "bf16").product({ProductKind::forward, 1024, 1024, 1024, DType::bf16});
  m.launch = 1e-3;
  m.sustained = 0.5;
  const Cost cost(m, "bf16");
  CHECK(cost.product({ProductKind::forward, 1024, 1024, 1024, DType::bf16}) == Approx(2 * before + 1e-3));
  CHECK(cost.pass(Pass::norm, 1e9) == Approx(2e-3));  // memory has no power limit here
}

TEST_CASE("attention takes the rate of the nearest head size and length") {
  const Machine m = machine();
  const Cost cost(m, "bf16");
  AttentionShape shape;
  shape.head_dim = 64;
  shape.k_rows = 1024;
  CHECK(cost.attention(shape, DType::bf16, 10e12, ProductKind::forward) == Approx(1).epsilon(1e-6));
  CHECK(cost.attention(shape, DType::bf16, 10e12, ProductKind::dx) == Approx(2).epsilon(1e-6));
  shape.head_dim = 128;
  shape.k_rows = 8192;
  CHECK(cost.attention(shape, DType::bf16, 40e12, ProductKind::forward) == Approx(1).margin(0.1));
}

TEST_CASE("messages cost a latency and the bytes of a ring, and the slower wires when they leave the node") {
  const Machine m = machine();  // four ranks per node
  const Cost cost(m, "bf16");
  CHECK(cost.exchange({ExchangeKind::all_reduce, 1, 1, 1e9}) == 0);
  CHECK(cost.exchange({ExchangeKind::all_reduce, 2, 1, 1e9}) == Approx(10e-6 + 1e9 / 100e9));
  CHECK(cost.exchange({ExchangeKind::all_gather, 4, 1, 1e9}) == Approx(10e-6 + 0.75e9 / 100e9));
  CHECK(cost.exchange({ExchangeKind::send, 2, 2, 1e9}) == Approx(10e-6 + 1e9 / 100e9));
  // one rank of each of four nodes
  CHECK(cost.exchange({ExchangeKind::all_reduce, 4, 4, 1e9}) == Approx(2 * 20e-6 + 1.5e9 / 10e9));
  // two ranks of each of four nodes use two network devices
  CHECK(cost.exchange({ExchangeKind::reduce_scatter, 8, 2, 1e9}) == Approx(10e-6 + 2 * 20e-6 + 0.875e9 / 20e9));
  CHECK(cost.exchange({ExchangeKind::send, 2, 4, 1e9}) == Approx(20e-6 + 1e9 / 10e9));
}

TEST_CASE("what a table lacks is named") {
  const auto message = [](const Machine& m, const std::string& precision) {
    try {
      const Cost cost(m, precision);
    } catch (const Error& error) {
      CHECK(error.code == Exit::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  Machine m = machine();
  CHECK(message(m, "bf16").empty());
  CHECK(message(m, "fp16").empty());  // the tensor cores' speed is that of bf16
  CHECK(message(m, "fp8").find("test.toml has no products in [gemm] for fp8") != std::string::npos);
  m.passes["typo"] = 1;
  CHECK(message(m, "bf16").find("bandwidth.typo is no pass") != std::string::npos);
  m.passes.erase("typo");
  m.passes.erase("adamw");
  CHECK(message(m, "bf16").find("lacks bandwidth.adamw") != std::string::npos);
}

TEST_CASE("the clock hides messages behind the computation and counts what is left") {
  const Machine m = machine();
  const Cost cost(m, "bf16");
  StepClock clock(cost);
  int lane = 0;
  const Exchange exchange{ExchangeKind::send, 2, 1, 1e9};  // 10.01 ms

  const double first = clock.exchange_beside(exchange, &lane), second = clock.exchange_beside(exchange, &lane);
  clock.pass(Pass::norm, 15e9);  // 15 ms
  clock.wait(first);
  CHECK(clock.waited() == 0);
  clock.wait(second);

  CHECK(first == Approx(10.01e-3));
  CHECK(second == Approx(20.02e-3));
  CHECK(clock.waited() == Approx(5.02e-3));
  CHECK(clock.now() == Approx(20.02e-3));
  clock.exchange(exchange);
  CHECK(clock.now() == Approx(30.03e-3));
}
