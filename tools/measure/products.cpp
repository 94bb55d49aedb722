// Matrix products of the layer's three kinds. T tokens, F outputs, C inputs.
#include <set>
#include <tuple>

#include "bench.h"
#include "trireme/base/log.h"

namespace trireme::measure {

namespace {

using Sizes = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // T, F, C

std::set<Sizes> general_sizes(const Options& options) {
  std::vector<std::int64_t> tokens{2048, 8192, 32768}, sides{1024, 2048, 4096, 8192, 16384};
  if (options.kind == DeviceKind::cpu) tokens = {256, 1024, 4096}, sides = {256, 768, 2048};
  if (options.quick) tokens = {64, 256}, sides = {64, 256};
  std::set<Sizes> sizes;
  for (const std::int64_t T : tokens) {
    for (const std::int64_t F : sides) {
      for (const std::int64_t C : sides) {
        if (static_cast<double>(T) * static_cast<double>(F) * static_cast<double>(C) <= 4.5e12) sizes.insert({T, F, C});
      }
    }
  }
  for (const Product& p : options.products) sizes.insert({p.T, p.F, p.C});
  return sizes;
}

// 0 where the operands do not fit into the arena.
GemmRates products_in(Bench& bench, DType dtype, const Sizes& sizes) {
  const auto [T, F, C] = sizes;
  const ArenaScope scope(bench.arena());
  const Tensor x = bench.random(dtype, {T, C}, 1), w = bench.random(dtype, {F, C}, 0.02);
  const Tensor y = bench.random(dtype, {T, F}, 1), dx = bench.zeros(dtype, {T, C});
  const Tensor dw = bench.zeros(accumulator_of(dtype), {F, C}), out = bench.zeros(dtype, {T, F});
  const double flops = 2.0 * static_cast<double>(T) * static_cast<double>(F) * static_cast<double>(C);
  return {T,
          F,
          C,
          flops / bench.seconds([&](Backend& be) { be.matmul(out, x, w, Tensor{}); }),
          flops / bench.seconds([&](Backend& be) { be.matmul_dx(dx, y, w); }),
          flops / bench.seconds([&](Backend& be) { be.matmul_dw(dw, y, x, Into::add); })};
}

struct Quantized {
  Tensor q, scale;
};

Quantized quantized(Bench& bench, DType format, std::int64_t rows, std::int64_t columns, std::int64_t n_scales) {
  Quantized result{bench.arena().take(format, {rows, columns}), bench.arena().take(DType::f32, {rows})};
  const ArenaScope scope(bench.arena());
  const Tensor x = bench.random(DType::bf16, {rows, columns}, 1);
  bench.backend().quantize_rows(result.q, result.scale, x);
  result.scale = result.scale.slice_rows(0, n_scales);
  return result;
}

// With the default settings of precision.fp8_*: E4M3 forward, added fast; E5M2 gradients, added exactly.
GemmRates products_in_fp8(Bench& bench, const Sizes& sizes) {
  const auto [T, F, C] = sizes;
  const ArenaScope scope(bench.arena());
  const Quantized x = quantized(bench, DType::e4m3, T, C, T), w = quantized(bench, DType::e4m3, F, C, F);
  const Quantized dy = quantized(bench, DType::e5m2, T, F, T), w_turned = quantized(bench, DType::e4m3, C, F, C);
  const Quantized dy_turned = quantized(bench, DType::e5m2, F, T, 1), x_turned = quantized(bench, DType::e4m3, C, T, 1);
  const Tensor y = bench.zeros(DType::bf16, {T, F}), dx = bench.zeros(DType::bf16, {T, C});
  const Tensor dw = bench.zeros(DType::f32, {F, C});
  const auto scaled = [&bench](Tensor d, const Quantized& a, const Quantized& b, Tensor addend, Accumulation sum) {
    return bench.seconds([&](Backend& be) { be.matmul_scaled(d, a.q, a.scale, b.q, b.scale, Tensor{}, addend, sum); });
  };
  const double flops = 2.0 * static_cast<double>(T) * static_cast<double>(F) * static_cast<double>(C);
  return {T,
          F,
          C,
          flops / scaled(y, x, w, Tensor{}, Accumulation::fast),
          flops / scaled(dx, dy, w_turned, Tensor{}, Accumulation::exact),
          flops / scaled(dw, dy_turned, x_turned, dw, Accumulation::exact)};
}

}  // namespace

void measure_products(Bench& bench, Machine& machine) {
  for (const std::string& precision : bench.options().precisions) {
    std::vector<GemmRates>& table = machine.gemm[precision];
    table.clear();
    for (const Sizes& sizes : general_sizes(bench.options())) {
      const auto [T, F, C] = sizes;
      const bool fp8 = precision == "fp8";
      if (fp8 && (T % 16 != 0 || F % 16 != 0 || C % 16 != 0)) continue;
      table.push_back(fp8 ? products_in_fp8(bench, sizes) : products_in(bench, storage_of(precision), sizes));
      const GemmRates& r = table.back();
      log().info(format("%-5s %6lld x %6lld x %6lld  %8.2f %8.2f %8.2f TFLOP/s", precision.c_str(),
                        static_cast<long long>(T), static_cast<long long>(F), static_cast<long long>(C),
                        r.forward / 1e12, r.dx / 1e12, r.dw / 1e12));
    }
  }
}

}  // namespace trireme::measure
