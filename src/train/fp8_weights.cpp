#include "trireme/train/fp8_weights.h"

#include "trireme/base/check.h"

namespace trireme {

namespace {

Fp8Options fp8_options(const PrecisionDeck& precision) {
  Fp8Options options;
  if (precision.fp8_format == "e4m3") options.gradient = DType::e4m3;
  if (precision.fp8_fast_accumulation == "none") options.forward_sum = Accumulation::exact;
  if (precision.fp8_fast_accumulation == "all") options.backward_sum = Accumulation::fast;
  return options;
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
  const std::int64_t first = deck.precision.fp8_first_bf16, last = deck.model.layers - deck.precision.fp8_last_bf16;
  for (std::int64_t layer = first; layer < last; ++layer) {
    for (const Linear& linear : model.block(layer).linears()) {
      if (params.holds(linear.weight)) weights->add(params, linear.weight, linear.n, persistent);
    }
  }
  return weights;
}

}  // namespace trireme
