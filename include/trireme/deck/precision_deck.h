#pragma once
// Deck section [precision]: number formats.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/deck/field.h"

namespace trireme {

struct PrecisionDeck {
  std::string compute = "fp32", optimizer = "fp32", moments = "fp32", master = "fp32", gradients = "fp32";
  double loss_scale = 4294967296.0, loss_scale_min = 1;
  std::int64_t loss_scale_window = 1000, loss_scale_hysteresis = 2;
  bool allow_tf32 = false;
  std::string fp8_recipe = "row", fp8_format = "hybrid", fp8_fast_accumulation = "forward",
              fp8_weight_gradients = "fp8";
  bool fp8_power_of_two = true, fp8_head = false;
  std::int64_t fp8_first_bf16 = 0, fp8_last_bf16 = 0;
  std::vector<std::int64_t> fp8_bf16_layers;
  template <class V>
  void describe(V& v) {
    using I = std::int64_t;
    v.field("compute", compute, "storage of weights and activations; fp8: bf16, with the products of the blocks in fp8",
            one_of({"fp64", "fp32", "bf16", "fp16", "fp8"}));
    v.field("optimizer", optimizer, "arithmetic and state of the optimizer; fp64 with compute = \"fp64\" always",
            one_of({"fp32", "fp64"}));
    v.field("moments", moments, "storage of AdamW's moments; bf16: rounded stochastically", one_of({"fp32", "bf16"}));
    v.field("master", master,
            "with bf16 weights: an fp32 copy, or the missing 16 bits of one (the same values in 2 bytes less)",
            one_of({"fp32", "remainder"}));
    v.field("gradients", gradients, "accumulated weight gradients (bf16 needs bf16 compute)", one_of({"fp32", "bf16"}));
    v.field("loss_scale", loss_scale, "fp16: first loss scale; the dynamic scaler halves and doubles it", above(0));
    v.field("loss_scale_min", loss_scale_min, "fp16: smallest loss scale", above(0));
    v.field("loss_scale_window", loss_scale_window, "fp16: good steps before the scale doubles", at_least<I>(1));
    v.field("loss_scale_hysteresis", loss_scale_hysteresis, "fp16: overflows before the scale halves", at_least<I>(1));
    v.field("fp8_recipe", fp8_recipe,
            "fp8: what has a scale of its own, from its largest magnitude: row: each token and output feature; "
            "current: each tensor; block: 1 x 128 of activations and gradients, 128 x 128 of weights",
            one_of({"row", "current", "block"}));
    v.field("fp8_format", fp8_format,
            "fp8: hybrid: e4m3 for weights and activations, e5m2 for gradients; or e4m3 for all",
            one_of({"hybrid", "e4m3"}));
    v.field("fp8_fast_accumulation", fp8_fast_accumulation,
            "fp8: products that may be added with fewer bits on the way (Hopper): faster, less exact",
            one_of({"none", "forward", "all"}));
    v.field("fp8_power_of_two", fp8_power_of_two,
            "fp8: scales are powers of two, which keeps the values the same on every grid; row always is", any<bool>());
    v.field("fp8_weight_gradients", fp8_weight_gradients,
            "fp8: products that give the weights' gradients; bf16 keeps bf16 copies of their operands",
            one_of({"fp8", "bf16"}));
    v.field("fp8_head", fp8_head, "fp8: the products of the LM head too", any<bool>());
    v.field("fp8_bf16_layers", fp8_bf16_layers, "fp8: these blocks stay in bf16, counted from 0",
            any<std::vector<std::int64_t>>());
    v.field("fp8_first_bf16", fp8_first_bf16, "fp8: this many blocks at the start stay in bf16", at_least<I>(0));
    v.field("fp8_last_bf16", fp8_last_bf16, "fp8: this many blocks at the end stay in bf16", at_least<I>(0));
    v.field("allow_tf32", allow_tf32, "fp32 matrix products may use the tensor cores' TF32 (CUDA)", any<bool>());
  }
};

}  // namespace trireme
