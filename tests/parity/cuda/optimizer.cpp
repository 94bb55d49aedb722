#include <cstring>

#include "catch.h"
#include "lab.h"

using namespace trireme;

namespace {

AdamWStep step_of(std::int64_t t, double clip) {
  AdamWStep step;
  step.lr = 1e-2;
  step.weight_decay = 0.1;
  step.t = t;
  step.grad_scale = 0.25;
  step.clip = clip;
  step.rounding = RandomKey{99, stream_of("rounding"), 12};
  step.first_index = 1000000007;
  return step;
}

struct State {
  Twin param, master, m, v, grad;
  AdamWTensors on(bool gpu) const {
    const auto at = [&](const Twin& t) { return gpu ? t.cuda : t.cpu; };
    return {at(param), at(master), at(m), at(v), at(grad)};
  }
};

// A parameter and its 16-bit rest, from f32 values.
void split(Lab& lab, const Twin& full, State& s) {
  const auto values = values_of(Lab::cpu(), full.cpu);
  const auto bits = [&](std::int64_t i) {
    const auto x = static_cast<float>(values[static_cast<std::size_t>(i)]);
    std::uint32_t b = 0;
    std::memcpy(&b, &x, sizeof b);
    return b;
  };
  const Shape shape{static_cast<std::int64_t>(values.size())};
  s.param = lab.of(DType::bf16, shape, [&](std::int64_t i) {
    const std::uint32_t high = (bits(i) + 0x8000U) & 0xffff0000U;
    float x = 0;
    std::memcpy(&x, &high, sizeof x);
    return x;
  });
  s.master = lab.of(DType::u16, shape, [&](std::int64_t i) { return bits(i) & 0xffffU; });
}

State make(Lab& lab, std::int64_t n, DType param, DType moments, DType grad, bool remainder) {
  State s;
  const Twin full = lab.normal(DType::f32, {n}, 0.1);
  if (remainder) {
    split(lab, full, s);
  } else if (param == DType::f32) {
    s.param = full;
    s.master = full;
  } else {
    s.master = full;
    s.param = lab.poisoned(param, {n});
    Lab::cpu().copy(s.param.cpu, full.cpu);
    Lab::cuda().copy(s.param.cuda, full.cuda);
  }
  s.m = lab.normal(moments, {n}, 0.01);
  const Twin v = lab.normal(DType::f32, {n}, 1e-3);
  const auto squares = values_of(Lab::cpu(), v.cpu);
  s.v = lab.of(moments, {n}, [&](std::int64_t i) { return std::abs(squares[static_cast<std::size_t>(i)]); });
  s.grad = lab.normal(grad, {n}, 0.5);
  return s;
}

void run(const State& s, const AdamWStep& step, const Twin& norm_sq) {
  Lab::cpu().adamw(s.on(false), step, norm_sq.cpu);
  Lab::cuda().adamw(s.on(true), step, norm_sq.cuda);
}

}  // namespace

TEST_CASE("AdamW with f32 moments in every arrangement of master copies") {
  const std::int64_t n = GENERATE(3, 6, 4099);  // of one element alone the sums may cancel
  const bool clips = GENERATE(false, true);
  for (const DType param : k_storage) {
    for (const DType grad : {DType::f32, param}) {
      for (const bool remainder : {false, true}) {
        if (remainder && param != DType::bf16) continue;
        Lab lab;
        const State s = make(lab, n, param, DType::f32, grad, remainder);
        const Twin norm_sq = lab.of(DType::f64, {1}, [&](std::int64_t) { return 0.25 * static_cast<double>(n); });

        run(s, step_of(3, clips ? 0.5 : 0.0), norm_sq);

        agree("adamw", param, s.param);
        agree("adamw", DType::f32, s.m);
        agree("adamw", DType::f32, s.v);
        if (!remainder) agree("adamw", DType::f32, s.master);
      }
    }
  }
}

TEST_CASE("the rest of a bf16 parameter holds the f32 parameter exactly") {
  Lab lab;
  const std::int64_t n = 1000;
  State wide = make(lab, n, DType::bf16, DType::f32, DType::f32, false), narrow = wide;
  narrow.m = lab.copy_of(wide.m);
  narrow.v = lab.copy_of(wide.v);
  split(lab, wide.master, narrow);
  const Twin norm_sq = lab.of(DType::f64, {1}, [](std::int64_t) { return 1.0; });

  Lab::cuda().adamw(wide.on(true), step_of(2, 0.0), norm_sq.cuda);
  Lab::cuda().adamw(narrow.on(true), step_of(2, 0.0), norm_sq.cuda);

  const auto master = values_of(Lab::cuda(), wide.master.cuda), high = values_of(Lab::cuda(), narrow.param.cuda);
  const auto low = values_of(Lab::cuda(), narrow.master.cuda);
  for (std::size_t i = 0; i < master.size(); ++i) {
    const auto top = static_cast<float>(high[i]);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &top, sizeof bits);
    bits += static_cast<std::uint32_t>(static_cast<std::int16_t>(static_cast<std::uint16_t>(low[i])));
    float joined = 0;
    std::memcpy(&joined, &bits, sizeof joined);
    CHECK(joined == static_cast<float>(master[i]));
  }
}

TEST_CASE("bf16 moments round by the same random words") {
  for (const bool has_master : {true, false}) {
    Lab lab;
    State s = make(lab, 5001, DType::bf16, DType::bf16, DType::bf16, false);
    if (!has_master) s.master = {};
    const Twin norm_sq = lab.of(DType::f64, {1}, [](std::int64_t) { return 1.0; });

    run(s, step_of(10, 1.0), norm_sq);

    agree("rounded_moment", DType::bf16, s.m);
    agree("rounded_moment", DType::bf16, s.v);
    agree("rounded_moment", DType::bf16, s.param);
  }
}

TEST_CASE("a step whose gradient norm is not finite writes nothing") {
  Lab lab;
  const State s = make(lab, 777, DType::bf16, DType::f32, DType::f32, false);
  const auto before = values_of(Lab::cuda(), s.master.cuda);
  const Twin norm_sq = lab.of(DType::f64, {1}, [](std::int64_t) { return std::numeric_limits<double>::infinity(); });

  run(s, step_of(3, 1.0), norm_sq);

  CHECK(values_of(Lab::cuda(), s.master.cuda) == before);
  equal(s.m);
  equal(s.param);
}
