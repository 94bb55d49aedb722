#include "trireme/train/fp8_weights.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

// Where quantisation costs about what FP8 saves: products with a side of 768 are 1.4 to 1.7 times as fast as in bf16
// (H200), and the whole 124M model is 5 % faster.
constexpr std::int64_t k_small_side = 1024;

Fp8Options fp8_options(const PrecisionDeck& precision) {
  Fp8Options options;
  if (precision.fp8_recipe == "current") options.recipe = Fp8Recipe::current;
  if (precision.fp8_recipe == "block") options.recipe = Fp8Recipe::block;
  if (!precision.fp8_power_of_two) options.scales = Scales::any;
  if (precision.fp8_format == "e4m3") options.gradient = DType::e4m3;
  if (precision.fp8_fast_accumulation == "none") options.forward_sum = Accumulation::exact;
  if (precision.fp8_fast_accumulation == "all") options.backward_sum = Accumulation::fast;
  if (precision.fp8_weight_gradients == "bf16") options.weight_gradients = WeightGradients::bf16;
  return options;
}

// Why a block stays in bf16; empty: it is in fp8.
std::string kept_by(const Deck& deck, std::int64_t layer) {
  const PrecisionDeck& p = deck.precision;
  if (layer < p.fp8_first_bf16) return "precision.fp8_first_bf16";
  if (layer >= deck.model.layers - p.fp8_last_bf16) return "precision.fp8_last_bf16";
  const auto& listed = p.fp8_bf16_layers;
  return std::find(listed.begin(), listed.end(), layer) != listed.end() ? "precision.fp8_bf16_layers" : "";
}

// "0-3, 5" of the blocks kept by `reason`.
std::string blocks_text(const Deck& deck, const std::string& reason) {
  std::string text;
  for (std::int64_t first = 0; first < deck.model.layers; ++first) {
    if (kept_by(deck, first) != reason) continue;
    std::int64_t last = first;
    while (last + 1 < deck.model.layers && kept_by(deck, last + 1) == reason) ++last;
    text += format("%s%lld", text.empty() ? "" : ", ", static_cast<long long>(first));
    if (last > first) text += "-" + std::to_string(last);
    first = last;
  }
  return text;
}

// Rows and columns of the joined weights on a rank of this tp coordinate.
struct Sides {
  std::int64_t F = 0, C = 0;
  bool small() const { return std::min(F, C) < k_small_side; }
};

Sides sides_of(const Linear& linear, const Model& model, const GridPoint& here) {
  Sides sides;
  for (ParamId id = linear.weight; id < linear.weight + linear.n; ++id) {
    const ParamSpec& spec = model.table()[id];
    const std::int64_t n = here.n(Axis::tp), at = here.at(Axis::tp);
    const auto part = [&](std::int64_t size) { return spec.cut_unit * cut(size / spec.cut_unit, n, at).count(); };
    sides.F += spec.cut == Cut::rows ? part(spec.shape[0]) : spec.shape[0];
    sides.C = spec.cut == Cut::columns ? part(spec.shape[1]) : spec.shape[1];
  }
  return sides;
}

std::string product_text(const std::string& name, const Sides& sides) {
  return format("%s %lld x %lld", name.c_str(), static_cast<long long>(sides.F), static_cast<long long>(sides.C));
}

}  // namespace

std::unique_ptr<Fp8Weights> make_fp8_weights(const Deck& deck, const Model& model, const ParamStore& params,
                                             std::int64_t n_tokens, Arena& persistent) {
  if (deck.precision.compute != "fp8") return nullptr;
  if (n_tokens % 16 != 0) {
    throw Error(Exit::usage,
                "precision.compute = \"fp8\": a micro-batch has " + std::to_string(n_tokens) +
                    " tokens on a rank; it must be a multiple of 16: change batch.micro, model.sequence or "
                    "parallel.context");
  }
  auto weights = std::make_unique<Fp8Weights>(fp8_options(deck.precision));
  const auto add = [&](const Linear& linear) {
    if (params.holds(linear.weight)) weights->add(params, linear.weight, linear.n, persistent);
  };
  for (std::int64_t layer = 0; layer < deck.model.layers; ++layer) {
    if (!kept_by(deck, layer).empty()) continue;
    for (const Linear& linear : model.block(layer).linears()) add(linear);
  }
  const GridPoint& here = params.here();
  if (deck.precision.fp8_head && here.at(Axis::pp) == here.n(Axis::pp) - 1) add(model.head().product());
  return weights;
}

std::string fp8_lines(const Deck& deck, const Model& model, const GridPoint& here) {
  const PrecisionDeck& p = deck.precision;
  if (p.compute != "fp8") return "";
  std::string text = format("fp8         recipe %s, %s, scales %s, fast accumulation: %s, dW in %s\n",
                            p.fp8_recipe.c_str(), p.fp8_format == "hybrid" ? "e4m3 with e5m2 gradients" : "e4m3",
                            p.fp8_power_of_two ? "powers of two" : "of any size", p.fp8_fast_accumulation.c_str(),
                            p.fp8_weight_gradients.c_str());
  const char* const names[] = {"q/k/v", "attention output", "up", "down"};
  std::string products, small;
  const auto list = [&](const std::string& name, const Linear& linear) {
    const Sides sides = sides_of(linear, model, here);
    products += (products.empty() ? "" : ", ") + product_text(name, sides);
    if (sides.small()) small += (small.empty() ? "" : ", ") + name;
  };
  std::size_t i = 0;
  for (const Linear& linear : model.block(0).linears()) list(names[i++], linear);
  text += "            in fp8: blocks " + blocks_text(deck, "") + ": " + products + " (features out x in, on a rank)";
  if (p.fp8_head) {
    products.clear();
    list("LM head", model.head().product());
    text += "; " + products;
  }
  text += "\n            in bf16: ";
  for (const char* reason : {"precision.fp8_first_bf16", "precision.fp8_last_bf16", "precision.fp8_bf16_layers"}) {
    const std::string blocks = blocks_text(deck, reason);
    if (!blocks.empty()) text += "blocks " + blocks + " (" + reason + "), ";
  }
  text += std::string(p.fp8_head ? "" : "LM head (precision.fp8_head), ") +
          "attention, norms, embedding, residual stream\n";
  if (small.empty()) return text;
  return text + format(
                    "            small: %s: a side is below %lld, where fp8 hardly pays (at 768 a model gained 5 %%); "
                    "consider precision.compute = \"bf16\"\n",
                    small.c_str(), static_cast<long long>(k_small_side));
}

}  // namespace trireme
