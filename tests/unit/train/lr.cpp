#include "trireme/train/lr.h"

#include <cmath>

#include "catch.h"

using namespace trireme;

namespace {

// Peak 1, minimum 0.1, ten steps of warm-up from 0.2, decay to step 110: numbers that can be checked by hand.
LrDeck deck_of(const std::string& shape) {
  LrDeck lr;
  lr.max = 1;
  lr.min = 0.1;
  lr.start = 0.2;
  lr.warmup = 10;
  lr.decay = 110;
  lr.shape = shape;
  return lr;
}

double rate(const LrDeck& lr, std::int64_t step) {
  return learning_rate(lr, step);
}

}  // namespace

TEST_CASE("every shape warms up on a straight line from start to max") {
  for (const char* shape : {"cosine", "linear", "constant", "wsd", "inverse_sqrt"}) {
    INFO(shape);
    const LrDeck lr = deck_of(shape);

    CHECK(rate(lr, 0) == Approx(0.2));
    CHECK(rate(lr, 1) == Approx(0.28));
    CHECK(rate(lr, 5) == Approx(0.6));
    CHECK(rate(lr, 10) == Approx(1.0));
  }
}

TEST_CASE("without warm-up the first step has the full rate") {
  LrDeck lr = deck_of("constant");
  lr.warmup = 0;
  CHECK(rate(lr, 1) == 1.0);
  lr.shape = "inverse_sqrt";
  CHECK(rate(lr, 1) == 1.0);
  CHECK(rate(lr, 4) == Approx(0.5));
}

TEST_CASE("cosine, linear and constant have their values at a quarter, half and the end") {
  const LrDeck cosine = deck_of("cosine"), linear = deck_of("linear"), constant = deck_of("constant");

  CHECK(rate(cosine, 35) == Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  CHECK(rate(cosine, 60) == Approx(0.55));
  CHECK(rate(cosine, 110) == Approx(0.1));
  CHECK(rate(linear, 35) == Approx(0.775));
  CHECK(rate(linear, 60) == Approx(0.55));
  CHECK(rate(linear, 110) == Approx(0.1));
  CHECK(rate(constant, 60) == 1.0);
  CHECK(rate(constant, 1000) == 1.0);
}

TEST_CASE("after the decay the rate stays at min") {
  for (const char* shape : {"cosine", "linear", "wsd"}) {
    INFO(shape);
    CHECK(rate(deck_of(shape), 110) == Approx(0.1));
    CHECK(rate(deck_of(shape), 111) == Approx(0.1));
    CHECK(rate(deck_of(shape), 100000) == Approx(0.1));
  }
}

TEST_CASE("inverse square root follows sqrt(W / step) and stops at min") {
  const LrDeck lr = deck_of("inverse_sqrt");

  CHECK(rate(lr, 40) == Approx(0.5));
  CHECK(rate(lr, 90) == Approx(1.0 / 3));
  CHECK(rate(lr, 1000) == Approx(0.1));
  CHECK(rate(lr, 4000) == Approx(0.1));
}

TEST_CASE("wsd is flat until its tail; each tail has its values at a quarter and at half") {
  LrDeck lr = deck_of("wsd");
  lr.wsd_decay = 20;  // from step 90 on
  const auto factor = [&](const char* tail, std::int64_t step) {
    lr.wsd_shape = tail;
    return (rate(lr, step) - 0.1) / 0.9;
  };
  for (const char* tail : {"linear", "cosine", "exponential", "minus_sqrt"}) {
    INFO(tail);
    CHECK(factor(tail, 11) == Approx(1));
    CHECK(factor(tail, 90) == Approx(1));
    CHECK(factor(tail, 91) < 1);
    CHECK(factor(tail, 109) > 0);
    CHECK(factor(tail, 110) == Approx(0).margin(1e-15));
  }

  CHECK(factor("linear", 95) == Approx(0.75));
  CHECK(factor("linear", 100) == Approx(0.5));
  CHECK(factor("cosine", 95) == Approx((1 + std::sqrt(0.5)) / 2));
  CHECK(factor("cosine", 100) == Approx(0.5));
  CHECK(factor("exponential", 95) == Approx(2 * std::pow(0.5, 0.25) - 1));
  CHECK(factor("exponential", 100) == Approx(std::sqrt(2.0) - 1));
  CHECK(factor("minus_sqrt", 95) == Approx(0.5));
  CHECK(factor("minus_sqrt", 100) == Approx(1 - std::sqrt(0.5)));
}

TEST_CASE("wsd without a length decays over a tenth of the decay steps, at least one") {
  LrDeck lr = deck_of("wsd");
  CHECK(rate(lr, 99) == 1.0);
  CHECK(rate(lr, 100) < 1.0);
  lr.warmup = 1;
  lr.decay = 5;
  CHECK(rate(lr, 4) == 1.0);
  CHECK(rate(lr, 5) == Approx(0.1));
}

TEST_CASE("a batch ramp grows by equal steps at equal distances in tokens") {
  BatchDeck batch;
  batch.global = 64;
  batch.ramp_start = 16;
  batch.ramp_step = 16;
  batch.ramp_tokens = 48000;  // three increments of 16000 tokens, 160 samples of 100
  const auto at = [&](std::int64_t samples) { return global_batch(batch, 100, samples); };

  CHECK(at(0) == 16);
  CHECK(at(159) == 16);
  CHECK(at(160) == 32);
  CHECK(at(319) == 32);
  CHECK(at(320) == 48);
  CHECK(at(479) == 48);
  CHECK(at(480) == 64);
  CHECK(at(1000000) == 64);
}

TEST_CASE("without a ramp the batch is the global one") {
  BatchDeck batch;
  batch.global = 24;
  CHECK(global_batch(batch, 100, 0) == 24);
  batch.ramp_start = batch.ramp_step = 24;
  batch.ramp_tokens = 1000;
  CHECK(global_batch(batch, 100, 0) == 24);
}
