#pragma once
// Every key of the program: its default, its meaning and its limit, one line each. Nothing here parses or checks.
// Sizes are in tokens, elements or sequences as named; 0 often means "derived", and the text says from what.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/deck/field.h"

namespace trireme {

struct RunDeck {
  std::string name = "run", output, resume = "auto";
  std::int64_t steps = 1000, seed = 1234;
  double max_minutes = 0;
  bool weights_only = false;
  template <class V>
  void describe(V& v) {
    v.field("name", name, "name of the run; its folder is runs/<name>", not_empty());
    v.field("output", output, "run folder; empty: runs/<name>", any<std::string>());
    v.field("steps", steps, "optimizer steps in all, those before a resume included", at_least<std::int64_t>(1));
    v.field("seed", seed, "seed of weights, dropout and data order", at_least<std::int64_t>(0));
    v.field("resume", resume,
            "\"auto\": the newest good checkpoint of the run folder if any; \"never\"; or a checkpoint file",
            not_empty());
    v.field("weights_only", weights_only,
            "take only the weights from run.resume = FILE and start at step 0 (fine-tuning)", any<bool>());
    v.field("max_minutes", max_minutes, "save and stop with exit code 75 before this wall time has passed; 0: no limit",
            at_least(0.0));
  }
};

struct ModelDeck {
  std::int64_t layers = 12, hidden = 768, heads = 12, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 50257,
               vocab_multiple = 128;
  std::int64_t sequence = 1024, window = 0;
  std::string norm = "layer", activation = "gelu_tanh", position = "learned", bias = "all", rope_scaling = "none";
  double norm_eps = 1e-5, rope_theta = 10000, rope_factor = 8, rope_low_freq = 1, rope_high_freq = 4;
  std::int64_t rope_original_sequence = 8192;
  bool tie_embeddings = true, qk_norm = false;
  double dropout = 0, attention_dropout = 0, init_std = 0.02, z_loss = 0;
  bool scaled_init = true;
  template <class V>
  void describe(V& v) {
    v.field("layers", layers, "transformer blocks", size_from(1));
    v.field("hidden", hidden, "channels of the residual stream", size_from(1));
    v.field("heads", heads, "query heads", size_from(1));
    v.field("kv_heads", kv_heads, "key/value heads (grouped-query attention); 0: as many as heads", size_from(0));
    v.field("head_dim", head_dim, "channels of a head; 0: hidden / heads", size_from(0));
    v.field("ffn", ffn, "features of the feed-forward layer; 0: 4 hidden, for swiglu 8/3 hidden rounded up to 64",
            size_from(0));
    v.field("vocab", vocab, "tokens of the tokenizer (data.source = \"text\": 257 or more)", size_from(2));
    v.field("vocab_multiple", vocab_multiple,
            "the vocabulary is padded to a multiple of this, whatever the grid; padding has probability 0",
            size_from(1));
    v.field("sequence", sequence, "tokens of a training sequence", size_from(1));
    v.field("window", window, "sliding attention window in tokens, the token itself included; 0: full", size_from(0));
    v.field("norm", norm, "normalisation", one_of({"layer", "rms"}));
    v.field("norm_eps", norm_eps, "added to the variance", above(0));
    v.field("activation", activation, "of the feed-forward layer",
            one_of({"gelu_tanh", "gelu_erf", "relu_squared", "swiglu"}));
    v.field("position", position, "positions: a learned table, rotary, or none", one_of({"learned", "rope", "none"}));
    v.field("bias", bias, "biases of the linear layers: all, only q, k and v, or none", one_of({"all", "qkv", "none"}));
    v.field("qk_norm", qk_norm, "RMS norm of each query and key head before the rotation (Qwen 3)", any<bool>());
    v.field("rope_theta", rope_theta, "base of the rotary frequencies", above(0));
    v.field("rope_scaling", rope_scaling,
            "how the frequencies are stretched: none, linear (by rope_factor), or as in Llama 3",
            one_of({"none", "linear", "llama3"}));
    v.field("rope_factor", rope_factor, "factor of linear and llama3 scaling", above(0));
    v.field("rope_low_freq", rope_low_freq,
            "llama3: wavelengths above rope_original_sequence / this are stretched in full", above(0));
    v.field("rope_high_freq", rope_high_freq, "llama3: wavelengths below rope_original_sequence / this are left alone",
            above(0));
    v.field("rope_original_sequence", rope_original_sequence, "llama3: sequence length of the first training",
            size_from(1));
    v.field("tie_embeddings", tie_embeddings, "the LM head uses the token embedding", any<bool>());
    v.field("dropout", dropout, "probability of dropping an element after the embedding and at the end of each branch",
            between(0.0, 0.999));
    v.field("attention_dropout", attention_dropout,
            "not offered: flash-attention kernels cannot draw it independently of the grid; must be 0",
            between(0.0, 0.0));
    v.field("init_std", init_std, "standard deviation of the initial weights", above(0));
    v.field("scaled_init", scaled_init,
            "initial output projections of attention and feed-forward are divided by sqrt(2 layers)", any<bool>());
    v.field("z_loss", z_loss,
            "coefficient of the squared log of the softmax sum (PaLM, section 5); not part of the reported loss",
            at_least(0.0));
  }
};

struct ParallelDeck {
  std::int64_t tensor = 1, pipeline = 1, context = 1, data = 0, virtual_stages = 1;
  bool sequence = true;
  std::string schedule = "1f1b", recompute = "none";
  std::vector<std::int64_t> stage_layers;
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
  }
};

struct PrecisionDeck {
  std::string compute = "fp32", optimizer = "fp32", moments = "fp32", master = "fp32", gradients = "fp32";
  double loss_scale = 4294967296.0, loss_scale_min = 1;
  std::int64_t loss_scale_window = 1000, loss_scale_hysteresis = 2;
  bool allow_tf32 = false;
  template <class V>
  void describe(V& v) {
    using I = std::int64_t;
    v.field("compute", compute, "storage of weights and activations", one_of({"fp64", "fp32", "bf16", "fp16"}));
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
    v.field("allow_tf32", allow_tf32, "fp32 matrix products may use the tensor cores' TF32 (CUDA)", any<bool>());
  }
};

struct BatchDeck {
  std::int64_t global = 8, micro = 1, ramp_start = 0, ramp_step = 0, ramp_tokens = 0;
  template <class V>
  void describe(V& v) {
    v.field("global", global, "sequences per optimizer step, over all replicas", size_from(1));
    v.field("micro", micro, "sequences computed at a time on one replica", size_from(1));
    v.field("ramp_start", ramp_start, "batch ramp: sequences per step at the start; 0: no ramp", size_from(0));
    v.field("ramp_step", ramp_step, "batch ramp: the batch grows by this many sequences at a time", size_from(0));
    v.field("ramp_tokens", ramp_tokens, "batch ramp: tokens after which batch.global is reached",
            at_least<std::int64_t>(0));
  }
};

struct OptimizerDeck {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1.0;
  template <class V>
  void describe(V& v) {
    v.field("beta1", beta1, "decay of the first moment", between(0.0, 0.999999));
    v.field("beta2", beta2, "decay of the second moment", between(0.0, 0.999999));
    v.field("eps", eps, "added to the root of the second moment", above(0));
    v.field("weight_decay", weight_decay, "decoupled decay of tensors with two dimensions; vectors are not decayed",
            at_least(0.0));
    v.field("clip", clip, "largest global gradient norm; 0: no clipping", at_least(0.0));
  }
};

struct LrDeck {
  double max = 3e-4, min = 3e-5, start = 0;
  std::int64_t warmup = 0, decay = 0, wsd_decay = 0;
  std::string shape = "cosine", wsd_shape = "linear";
  template <class V>
  void describe(V& v) {
    using I = std::int64_t;
    v.field("max", max, "learning rate after the warm-up", above(0));
    v.field("min", min, "learning rate at the end of the decay", at_least(0.0));
    v.field("start", start, "learning rate before the first warm-up step", at_least(0.0));
    v.field("warmup", warmup, "steps of linear warm-up", at_least<I>(0));
    v.field("decay", decay, "step at which lr.min is reached; 0: run.steps", at_least<I>(0));
    v.field("shape", shape, "curve after the warm-up", one_of({"cosine", "linear", "constant", "wsd", "inverse_sqrt"}));
    v.field("wsd_decay", wsd_decay, "wsd: steps of the final decay; 0: a tenth of the decay steps", at_least<I>(0));
    v.field("wsd_shape", wsd_shape, "wsd: curve of the final decay",
            one_of({"linear", "cosine", "exponential", "minus_sqrt"}));
  }
};

struct DataDeck {
  std::string source = "text", dtype = "auto";
  std::vector<std::string> paths, validation_paths;
  double validation_fraction = 0.05;
  std::int64_t eod = -1;
  bool mask_eod = false, accept_change = false;
  template <class V>
  void describe(V& v) {
    v.field("source", source,
            "text: files of text, one token per byte; tokens: .bin files; mock: random tokens for benchmarks",
            one_of({"text", "tokens", "mock"}));
    v.field("paths", paths, "files to train on, in order; relative to the deck that states them",
            any<std::vector<std::string>>());
    v.field("validation_paths", validation_paths,
            "files for the validation loss; empty: the end of data.paths is held out", any<std::vector<std::string>>());
    v.field("validation_fraction", validation_fraction,
            "part of data.paths held out when there are no validation_paths", between(0.0, 0.5));
    v.field("dtype", dtype,
            "element of a raw .bin file; auto: from the .idx file beside it, else u16 below 65500 tokens",
            one_of({"auto", "u8", "u16", "i32"}));
    v.field("eod", eod, "id of the end-of-document token; -1: the byte tokenizer's 256, none for token files",
            at_least<std::int64_t>(-1));
    v.field("mask_eod", mask_eod, "no loss where the input token is the end-of-document token", any<bool>());
    v.field("accept_change", accept_change,
            "resume although the data are not those the checkpoint was trained on; the position is kept", any<bool>());
  }
};

struct EvalDeck {
  std::int64_t every = 100, batches = 8;
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between validation losses; 0: never", size_from(0));
    v.field("batches", batches, "global batches of a validation loss", size_from(1));
  }
};

struct CheckpointDeck {
  std::int64_t every = 0, keep = 2;
  bool at_end = true;
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between checkpoints; 0: none on the way", size_from(0));
    v.field("at_end", at_end, "write one after the last step", any<bool>());
    v.field("keep", keep, "newest checkpoints to keep; 0: all", size_from(0));
  }
};

struct LogDeck {
  std::int64_t every = 10;
  std::string level = "info", file = "log.txt";
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between lines of the log", at_least<std::int64_t>(1));
    v.field("level", level, "debug adds statistics per layer and every decision",
            one_of({"error", "warning", "info", "debug"}));
    v.field("file", file, "log file in the run folder; empty: terminal only", any<std::string>());
  }
};

struct DeviceDeck {
  std::string kind = "auto", comm = "auto";
  std::int64_t threads = 0;
  bool deterministic = false;
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
    v.field("peak_tflops", peak_tflops, "dense peak of one rank's device for mfu; 0: known devices by name, else none",
            at_least(0.0));
  }
};

struct Deck {
  RunDeck run;
  ModelDeck model;
  ParallelDeck parallel;
  PrecisionDeck precision;
  BatchDeck batch;
  OptimizerDeck optimizer;
  LrDeck lr;
  DataDeck data;
  EvalDeck eval;
  CheckpointDeck checkpoint;
  LogDeck log;
  DeviceDeck device;
  template <class V>
  void describe(V& v) {
    v.section("run", run, "what to do and where to put it");
    v.section("model", model, "the network");
    v.section("parallel", parallel, "the process grid: ranks = pipeline * data * context * tensor");
    v.section("precision", precision, "number formats");
    v.section("batch", batch, "sequences per step");
    v.section("optimizer", optimizer, "AdamW");
    v.section("lr", lr, "learning rate, a pure function of the step");
    v.section("data", data, "what to learn from");
    v.section("eval", eval, "validation loss");
    v.section("checkpoint", checkpoint, "saving");
    v.section("log", log, "what is printed");
    v.section("device", device, "hardware");
  }
};

}  // namespace trireme
