#include "trireme/train/loss_scaler.h"

#include <algorithm>
#include <random>

#include "catch.h"

using namespace trireme;

namespace {

PrecisionDeck fp16(double scale, std::int64_t window, std::int64_t hysteresis) {
  PrecisionDeck deck;
  deck.compute = "fp16";
  deck.loss_scale = scale;
  deck.loss_scale_window = window;
  deck.loss_scale_hysteresis = hysteresis;
  return deck;
}

void feed(LossScaler& scaler, const std::string& steps) {
  for (const char step : steps) scaler.update(step == 'x');
}

// Megatron's dynamic scaler, written from its description: on an overflow the growth counter restarts, one unit of
// hysteresis is spent, and the scale halves (not below min) once none is left; `window` good steps double the scale,
// restart the counter and restore the hysteresis.
struct Megatron {
  double scale, min;
  std::int64_t window, full, growth = 0, hysteresis;
  void update(bool overflow) {
    if (overflow) {
      growth = 0;
      hysteresis -= 1;
      if (hysteresis <= 0) scale = std::max(scale * 0.5, min);
    } else {
      growth += 1;
      if (growth == window) {
        growth = 0;
        hysteresis = full;
        scale = scale * 2;
      }
    }
  }
};

}  // namespace

TEST_CASE("the first overflow only spends hysteresis, each later one halves the scale") {
  LossScaler scaler(fp16(1024, 4, 2));

  feed(scaler, "x");
  CHECK(scaler.scale() == 1024);
  feed(scaler, "x");
  CHECK(scaler.scale() == 512);
  feed(scaler, "x");
  CHECK(scaler.scale() == 256);
}

TEST_CASE("good steps short of a window do not restore the hysteresis") {
  LossScaler scaler(fp16(1024, 4, 2));

  feed(scaler, "x...x");

  CHECK(scaler.scale() == 512);
}

TEST_CASE("a window of good steps doubles the scale and restores the hysteresis") {
  LossScaler scaler(fp16(1024, 4, 2));

  feed(scaler, "xx....");
  CHECK(scaler.scale() == 1024);
  feed(scaler, "x");
  CHECK(scaler.scale() == 1024);
  feed(scaler, "x");
  CHECK(scaler.scale() == 512);
}

TEST_CASE("an overflow restarts the window") {
  LossScaler scaler(fp16(1024, 4, 2));

  feed(scaler, "...x...");
  CHECK(scaler.scale() == 1024);
  feed(scaler, ".");
  CHECK(scaler.scale() == 2048);
}

TEST_CASE("the scale does not fall below its minimum") {
  PrecisionDeck deck = fp16(8, 1000, 1);
  deck.loss_scale_min = 3;
  LossScaler scaler(deck);

  feed(scaler, "xxxxx");

  CHECK(scaler.scale() == 3);
}

TEST_CASE("defaults are Megatron's") {
  PrecisionDeck deck;
  deck.compute = "fp16";
  CHECK(LossScaler(deck).scale() == 4294967296.0);
  CHECK(deck.loss_scale_min == 1);
  CHECK(deck.loss_scale_window == 1000);
  CHECK(deck.loss_scale_hysteresis == 2);
}

TEST_CASE("other precisions have scale 1 whatever happens") {
  for (const char* precision : {"fp64", "fp32", "bf16"}) {
    PrecisionDeck deck = fp16(1024, 2, 1);
    deck.compute = precision;
    LossScaler scaler(deck);

    feed(scaler, "x....x");

    CHECK(scaler.scale() == 1);
  }
}

TEST_CASE("long random histories give Megatron's scale at every step") {
  std::mt19937 random(7);
  for (const double rate : {0.01, 0.1, 0.5}) {
    LossScaler ours(fp16(65536, 9, 3));
    Megatron theirs{65536, 1, 9, 3, 0, 3};
    std::bernoulli_distribution overflows(rate);
    for (int step = 0; step < 2000; ++step) {
      const bool overflow = overflows(random);
      ours.update(overflow);
      theirs.update(overflow);
      REQUIRE(ours.scale() == theirs.scale);
    }
  }
}

TEST_CASE("a restored scaler goes on as if nothing had happened") {
  LossScaler straight(fp16(1024, 4, 2)), resumed(fp16(1024, 4, 2));
  feed(straight, "x..");

  resumed.restore(straight.state());

  for (const char* steps : {"..", "x", ".x", "....", "xx"}) {
    feed(straight, steps);
    feed(resumed, steps);
    CHECK(resumed.scale() == straight.scale());
  }
}
