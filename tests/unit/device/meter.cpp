#include "trireme/device/meter.h"

#include <vector>

#include "catch.h"
#include "trireme/device/arena.h"

using namespace trireme;

namespace {

class Listener final : public Meter {
 public:
  void product(const Product& p) override { products.push_back(p); }
  void attention(const AttentionShape&, DType, double flops) override { forward_flops += flops; }
  void attention_backward(const AttentionShape&, DType, double flops) override { backward_flops += flops; }
  void pass(Pass pass, double bytes) override { passes.emplace_back(pass, bytes); }
  double now() const override { return 1.5 * static_cast<double>(passes.size()); }
  std::vector<Product> products;
  std::vector<std::pair<Pass, double>> passes;
  double forward_flops = 0, backward_flops = 0;
};

}  // namespace

TEST_CASE("a meter hears what an operation must read and write once") {
  Listener meter;
  const auto be = make_plan_backend(DeviceKind::cuda, meter);
  Arena arena(*be, "plan", std::size_t{1} << 40);
  const Tensor x = arena.take(DType::bf16, {10, 8}), y = arena.take(DType::bf16, {10, 8});
  const Tensor w = arena.take(DType::bf16, {6, 8}), out = arena.take(DType::bf16, {10, 6});
  const Tensor statistics = arena.take(DType::f32, {10}), gain = arena.take(DType::f32, {8});

  be->norm(y, statistics, statistics, x, gain, gain, NormKind::layer, 1e-5);
  be->norm_backward(y, gain, gain, x, x, statistics, statistics, gain, NormKind::layer, Into::replace);
  be->matmul(out, x, w, Tensor{});
  be->matmul_dx(x, out, w);
  be->matmul_dw(w, out, x, Into::add);

  REQUIRE(meter.passes.size() == 2);
  CHECK(meter.passes[0] == std::pair<Pass, double>(Pass::norm, 2 * 160));
  CHECK(meter.passes[1] == std::pair<Pass, double>(Pass::norm_backward, 4 * 160));
  REQUIRE(meter.products.size() == 3);
  for (int i = 0; i < 3; ++i) {
    const Product& p = meter.products[static_cast<std::size_t>(i)];
    CHECK(p.kind == static_cast<ProductKind>(i));
    CHECK((p.T == 10 && p.F == 6 && p.C == 8 && p.operands == DType::bf16));
  }
  CHECK(be->time_of(be->mark()) == 3.0);
}

TEST_CASE("operations that a GPU fuses move fewer bytes than their parts") {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    Listener meter;
    const auto be = make_plan_backend(kind, meter);
    Arena arena(*be, "plan", std::size_t{1} << 40);
    const Tensor x = arena.take(DType::bf16, {10, 8}), bias = arena.take(DType::f32, {8});
    be->activation_backward_bias(x, bias, x, x, Activation::gelu_tanh, Into::replace);
    CHECK(meter.passes.size() == (kind == DeviceKind::cuda ? 1 : 2));
  }
}
