#pragma once
// Deck sections of a run as a whole: [run], [eval] and [log].

#include <cstdint>
#include <string>

#include "trireme/deck/field.h"

namespace trireme {

struct RunDeck {
  std::string name = "run", output, resume = "auto";
  std::int64_t steps = 1000, seed = 1234;
  double max_minutes = 0, margin_minutes = 1, hang_minutes = 10;
  std::int64_t max_restarts = 5, check_replicas = 0;
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
    v.field("margin_minutes", margin_minutes, "time kept free before the end of a Slurm job, beside a step and a save",
            at_least(0.0));
    v.field(
        "hang_minutes", hang_minutes,
        "end the job with a report and exit code 4 when a rank waits so long for others; work on files gets six times "
        "as long; 0: never",
        at_least(0.0));
    v.field("check_replicas", check_replicas,
            "steps between checks that the replicas (dp, cp) hold the same weights, bit for bit; 0: never",
            size_from(0));
    v.field("max_restarts", max_restarts,
            "refuse to start when so many starts of this deck from the same step saved nothing; 0: never",
            at_least<std::int64_t>(0));
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

struct LogDeck {
  std::int64_t every = 10;
  std::string level = "info", file = "log.txt", prometheus;
  bool tensorboard = true, trace = false;
  std::int64_t trace_steps = 3;
  template <class V>
  void describe(V& v) {
    v.field("every", every, "steps between lines of the log", at_least<std::int64_t>(1));
    v.field("level", level, "debug adds statistics per layer and every decision",
            one_of({"error", "warning", "info", "debug"}));
    v.field("file", file, "log file in the run folder; empty: terminal only", any<std::string>());
    v.field("tensorboard", tensorboard, "write scalars for TensorBoard into the run folder", any<bool>());
    v.field(
        "prometheus", prometheus,
        "file that always holds the newest numbers in Prometheus' text format, for a textfile collector; empty: none",
        any<std::string>());
    v.field(
        "trace", trace,
        "write a trace of a few steps for Perfetto or chrome://tracing, after two steps of warm-up; --trace sets it",
        any<bool>());
    v.field("trace_steps", trace_steps, "steps in a trace, also in one that the file `profile` asks for", size_from(1));
  }
};

}  // namespace trireme
