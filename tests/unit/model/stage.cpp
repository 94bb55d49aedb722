#include <cmath>
#include <random>

#include "catch.h"
#include "models.h"
#include "small_stage.h"

using namespace trireme;

namespace {

struct Case {
  const char* name;
  ModelDeck deck;
  double dropout;
};

std::vector<Case> cases() {
  return {{"like GPT-2", gpt2_like(), 0},  {"like GPT-2 with dropout", gpt2_like(), 0.2},
          {"like Llama", llama_like(), 0}, {"windowed", window_like(), 0.1},
          {"mixed", mixed_like(), 0},      {"like GPT-NeoX with dropout", neox_like(), 0.2}};
}

std::vector<double> gradients_of(SmallStage& stage) {
  std::vector<double> all;
  for (ParamId id = 0; id < stage.store().table().size(); ++id) {
    const Tensor grad = stage.store().at(id).grad;
    all.insert(all.end(), grad.ptr<double>(), grad.ptr<double>() + grad.count());
  }
  return all;
}

double largest(const Tensor& x) {
  double most = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) most = std::max(most, std::abs(x.ptr<double>()[i]));
  return most;
}

// Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h.
double slope(SmallStage& stage, double& element) {
  const double h = 1e-5, before = element;  // small: the squared ReLU has kinks in its slope
  const auto at = [&](double offset) {
    element = before + offset;
    return stage.objective();
  };
  const double near = at(h) - at(-h), far = at(2 * h) - at(-2 * h);
  element = before;
  return (8 * near - far) / (12 * h);
}

}  // namespace

TEST_CASE("the gradient of every parameter is the slope of the loss") {
  for (const Case& which : cases()) {
    SmallStage stage(which.deck, which.dropout, Recompute::none);
    stage.differentiate(0.7);
    std::mt19937 random(11);
    for (ParamId id = 0; id < stage.store().table().size(); ++id) {
      const Param& param = stage.store().at(id);
      const double scale = largest(param.grad);
      for (int trial = 0; trial < 4; ++trial) {
        const auto i = std::uniform_int_distribution<std::int64_t>(0, param.value.count() - 1)(random);
        INFO(which.name << ": " << stage.store().table()[id].name << ", element " << i);
        const double expected = 0.7 * slope(stage, param.value.ptr<double>()[i]);
        REQUIRE(param.grad.ptr<double>()[i] == Approx(expected).epsilon(3e-7).margin(3e-7 * scale + 1e-9));
      }
    }
  }
}

TEST_CASE("only padding of the vocabulary and unused rows have no gradient at all") {
  for (const Case& which : cases()) {
    SmallStage stage(which.deck, which.dropout, Recompute::none);
    stage.differentiate(1);
    for (ParamId id = 0; id < stage.store().table().size(); ++id) {
      const ParamSpec& spec = stage.store().table()[id];
      const Tensor grad = stage.store().at(id).grad;
      INFO(which.name << ": " << spec.name);
      // Keys meet every query with the same bias: the softmax does not see it, unless rotation or QK-norm is between.
      const bool key_bias = spec.name.find("attn.k.bias") != std::string::npos && which.deck.position != "rope";
      if (key_bias) CHECK(largest(grad) < 1e-12);
      if (!key_bias) CHECK(largest(grad) > 1e-6);
      if (spec.valid_rows > 0) CHECK(largest(grad.slice_rows(spec.valid_rows, grad.rows() - spec.valid_rows)) == 0);
    }
  }
}

TEST_CASE("the loss that backward reports is the one that forward computes") {
  for (const Case& which : cases()) {
    ModelDeck deck = which.deck;
    deck.z_loss = 0;
    SmallStage stage(deck, which.dropout, Recompute::none);

    const double loss = stage.differentiate(0.01);

    CHECK(loss == stage.objective());
    CHECK(loss > 0);
  }
}

TEST_CASE("recomputation changes no bit of the gradients") {
  for (const Case& which : cases()) {
    SmallStage keeps(which.deck, which.dropout, Recompute::none);
    keeps.differentiate(1);
    for (const Recompute mode : {Recompute::light, Recompute::attention, Recompute::block}) {
      INFO(which.name);
      SmallStage again(which.deck, which.dropout, mode);

      again.differentiate(1);

      CHECK(gradients_of(again) == gradients_of(keeps));
    }
  }
}

TEST_CASE("backward reports head, blocks from last to first, embedding") {
  SmallStage stage(gpt2_like(), 0, Recompute::none);

  stage.differentiate(1);

  CHECK(stage.passed() == std::vector<int>{k_last_layer, 1, 0, k_first_layer, k_last_layer, 1, 0, k_first_layer});
}
