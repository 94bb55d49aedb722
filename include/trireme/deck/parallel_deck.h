#pragma once
// Deck sections [parallel] and [device]: the process grid and the hardware below it.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/deck/field.h"

namespace trireme {

struct ParallelDeck {
  std::int64_t tensor = 1, pipeline = 1, context = 1, data = 0, virtual_stages = 1;
  bool sequence = true;
  std::string schedule = "1f1b", recompute = "none";
  std::vector<std::int64_t> stage_layers;
  std::vector<std::string> stage_recompute;
  bool zero = true;
  double bucket_mb = 64;
  template <class V>
  void describe(V& v) {
    v.field("tensor", tensor, "ranks that share each layer (tp); neighbours in a node", ranks_from(1));
    v.field("sequence", sequence,
            "sequence parallelism: outside the matrix products each tp rank keeps 1/tp of the tokens", any<bool>());
    v.field("pipeline", pipeline, "pipeline stages (pp)", ranks_from(1));
    v.field("virtual_stages", virtual_stages, "chunks of layers per pipeline rank (interleaved)", ranks_from(1));
    v.field("stage_layers", stage_layers,
            "layers of each of the pipeline * virtual_stages chunks in order; empty: as even as possible",
            any<std::vector<std::int64_t>>());
    v.field("schedule", schedule, "pipeline schedule; 1f1b is interleaved when virtual_stages > 1",
            one_of({"1f1b", "gpipe"}));
    v.field("context", context, "ranks that share each sequence (cp, ring attention)", ranks_from(1));
    v.field("data", data, "replicas (dp); 0: the ranks that remain", ranks_from(0));
    v.field("zero", zero, "shard the optimizer state over the dp * cp replicas (ZeRO-1)", any<bool>());
    v.field("bucket_mb", bucket_mb, "gradients are reduced in buckets of about this many MiB", above(0));
    v.field("recompute", recompute, "what the backward pass computes again instead of keeping",
            one_of({"none", "light", "attention", "block"}));
    v.field("stage_recompute", stage_recompute,
            "recompute of each of the pipeline * virtual_stages chunks in order, as early stages keep more "
            "micro-batches; empty: parallel.recompute everywhere",
            any<std::vector<std::string>>());
  }
  // Of one chunk, counted in the order of the layers.
  const std::string& recompute_of(std::int64_t chunk) const {
    return stage_recompute.empty() ? recompute : stage_recompute[static_cast<std::size_t>(chunk)];
  }
};

struct DeviceDeck {
  std::string kind = "auto", comm = "auto";
  std::int64_t threads = 0;
  bool deterministic = false, burn_in = false;
  double peak_tflops = 0;
  template <class V>
  void describe(V& v) {
    v.field("kind", kind, "where to compute; auto: a GPU when the build and the node have one, else the CPU",
            one_of({"auto", "cpu", "cuda"}));
    v.field("comm", comm, "what carries tensors between ranks; auto: NCCL when each rank has its own GPU, else MPI",
            one_of({"auto", "nccl", "mpi"}));
    v.field("threads", threads, "CPU threads per rank; 0: the node's cores divided by its ranks",
            at_least<std::int64_t>(0));
    v.field("deterministic", deterministic, "the same bits in every run of one deck on one grid (the CPU always is)",
            any<bool>());
    v.field(
        "burn_in", burn_in,
        "before the first step, test every rank's device and links for some seconds: wrong ones end the run with exit "
        "code 4, slow ones are named",
        any<bool>());
    v.field("peak_tflops", peak_tflops, "dense peak of one rank's device for mfu; 0: known devices by name, else none",
            at_least(0.0));
  }
};

}  // namespace trireme
