#include <algorithm>
#include <cmath>
#include <random>

#include "catch.h"
#include "models.h"
#include "small_stage.h"

using namespace trireme;

namespace {

enum class Positions { running, reset };

// Documents of the given lengths, packed behind each other and one by one.
struct Packed {
  SmallStage::Sequence whole;
  std::vector<SmallStage::Sequence> parts;
};

Packed packed(const ModelDeck& deck, const std::vector<std::int32_t>& lengths, Positions positions) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(deck.vocab) - 1);
  Packed result;
  std::int32_t start = 0;
  for (const std::int32_t length : lengths) {
    SmallStage::Sequence part;
    for (std::int32_t i = 0; i < length; ++i) {
      part.ids.push_back(token(random));
      part.targets.push_back(token(random));
      part.positions.push_back(positions == Positions::reset ? i : start + i);
      result.whole.doc_starts.push_back(start);
    }
    result.whole.ids.insert(result.whole.ids.end(), part.ids.begin(), part.ids.end());
    result.whole.targets.insert(result.whole.targets.end(), part.targets.begin(), part.targets.end());
    result.whole.positions.insert(result.whole.positions.end(), part.positions.begin(), part.positions.end());
    result.parts.push_back(part);
    start += length;
  }
  return result;
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients;
};

Outcome outcome_of(const ModelDeck& deck, const std::vector<SmallStage::Sequence>& sequences, Recompute recompute) {
  SmallStage stage(deck, 0, recompute);
  stage.set_batches(sequences);
  Outcome outcome{stage.differentiate(1), {}};
  for (ParamId id = 0; id < stage.store().table().size(); ++id) {
    const Tensor grad = stage.store().at(id).grad;
    outcome.gradients.insert(outcome.gradients.end(), grad.ptr<double>(), grad.ptr<double>() + grad.count());
  }
  return outcome;
}

double difference(const Outcome& a, const Outcome& b) {
  double largest = 0, worst = std::abs(a.loss - b.loss) / std::abs(b.loss);
  for (const double x : b.gradients) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    worst = std::max(worst, std::abs(a.gradients[i] - b.gradients[i]) / largest);
  return worst;
}

}  // namespace

TEST_CASE("a packed sample with separated documents is the documents computed one by one") {
  for (ModelDeck deck : {gpt2_like(), llama_like(), window_like(), neox_like()}) {
    deck.sequence = 150;  // more than one tile of queries
    for (const Positions positions : {Positions::running, Positions::reset}) {
      for (const Recompute recompute : {Recompute::none, Recompute::block}) {
        const Packed documents = packed(deck, {3, 70, 1, 50, 26}, positions);
        INFO(deck.norm << " " << deck.position << " window " << deck.window);

        const Outcome together = outcome_of(deck, {documents.whole}, recompute);
        const Outcome apart = outcome_of(deck, documents.parts, recompute);

        CHECK(difference(together, apart) < 1e-12);
        SmallStage::Sequence mixed = documents.whole;
        mixed.doc_starts.clear();
        CHECK(difference(outcome_of(deck, {mixed}, recompute), apart) > 1e-4);
      }
    }
  }
}
