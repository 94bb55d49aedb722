"""Five steps on one grid, a checkpoint, five more on another grid: the curve of ten steps without a stop.

On the same grid the numbers are the same to the last digit; on others they differ by the order of sums.
--all: every pair of grids.
"""
import os
import sys

import job

GPT = ["model.dropout=0.1", "model.ffn=44"]
LLAMA = ["model.kv_heads=2", "model.norm=rms", "model.activation=swiglu", "model.position=rope", "model.bias=none",
         "model.qk_norm=true", "model.tie_embeddings=false", "model.ffn=38", "data.eod=3", "data.mask_eod=true"]
MODELS = {"gpt": GPT, "llama": LLAMA}
# Boundary tensors beyond the eager limit of MPI (4 KiB in shared memory): sends wait for their receives.
COMMON = ["model.sequence=96", "run.steps=10", "lr.max=0.01", "lr.warmup=3", "lr.decay=10", "eval.every=5",
          "eval.batches=2", "checkpoint.every=5", "checkpoint.at_end=false", "checkpoint.keep=0",
          "parallel.bucket_mb=0.01", "precision.compute=fp64"]

# name: (ranks, settings)
GRIDS = {
    "one": (1, []),
    "dp3": (3, ["parallel.data=3"]),
    "dp2 whole": (2, ["parallel.data=2", "parallel.zero=false"]),
    "tp2 pp2": (4, ["parallel.tensor=2", "parallel.pipeline=2"]),
    "pp2 interleaved": (2, ["parallel.pipeline=2", "parallel.virtual_stages=2"]),
    "pp3 uneven": (3, ["parallel.pipeline=3", "parallel.stage_layers=[1,2,1]"]),
    "cp2 dp2": (4, ["parallel.context=2", "parallel.data=2"]),
    "cp2 tp2 whole": (4, ["parallel.context=2", "parallel.tensor=2", "parallel.zero=false"]),
}
# (model, grid that saves, grids that go on)
SHORT = [
    ("gpt", "pp2 interleaved", ["pp2 interleaved", "one", "cp2 dp2"]),
    ("gpt", "dp3", ["dp3", "tp2 pp2"]),
    ("llama", "cp2 tp2 whole", ["cp2 tp2 whole", "pp3 uneven"]),
    ("llama", "pp3 uneven", ["dp2 whole"]),
]
EVERY = [(model, grid, list(GRIDS)) for model in MODELS for grid in GRIDS]
BOUND = 1e-11


def train(folder, model, grid, more):
    ranks, settings = GRIDS[grid]
    arguments = ["train", os.path.join(folder, "deck.toml"), *COMMON, *MODELS[model], *settings, *more]
    ended = job.run(ranks, arguments)
    if ended.code != 0:
        print(ended.out[-3000:], ended.err[-3000:])
        raise SystemExit(f"{model} on {grid}: exit code {ended.code}")


def largest_difference(ours, theirs, names):
    worst = 0.0
    for step in range(6, 11):
        for name in names:
            a, b = ours[step].get(name), theirs[step].get(name)
            if (a is None) != (b is None):
                return float("inf")
            if a is not None and a != b:
                worst = max(worst, abs(float(a) - float(b)) / abs(float(b)))
    return worst


def check_pairs(folder, pairs):
    failures = 0
    for model, first, others in pairs:
        straight = os.path.join(folder, f"{model} {first}")
        train(folder, model, first, [f"run.output={straight}"])
        curve = job.metrics(straight)
        for other in others:
            resumed = os.path.join(folder, f"{model} {first} to {other}")
            checkpoint = os.path.join(straight, "checkpoints", "step_00000005.h5")
            train(folder, model, other, [f"run.output={resumed}", f"run.resume={checkpoint}", "checkpoint.every=0"])
            worst = largest_difference(job.metrics(resumed), curve, ["loss", "grad_norm", "validation_loss"])
            good = worst == 0 if other == first else worst <= BOUND
            failures += not good
            print(f"{'ok  ' if good else 'FAIL'} {model:6} {first:16} -> {other:16} {worst:.1e}", flush=True)
    return failures


# The state beside fp64 weights: masters, their lower halves, moments of 16 bits, the loss scale. Bit for bit.
FORMATS = {
    "bf16": ["precision.compute=bf16"],
    "bf16 remainder": ["precision.compute=bf16", "precision.master=remainder", "precision.moments=bf16"],
    "bf16 fp64 state": ["precision.compute=bf16", "precision.optimizer=fp64"],
    # Overflows at the start, then doubles every second step: the counters matter in both directions.
    "fp16": ["precision.compute=fp16", "precision.loss_scale=16777216", "precision.loss_scale_window=2"],
    "fp32": ["precision.compute=fp32"],
}
FORMAT_GRIDS = {"bf16": "cp2 dp2", "bf16 remainder": "dp3", "bf16 fp64 state": "dp2 whole", "fp16": "tp2 pp2",
                "fp32": "pp2 interleaved"}


def check_formats(folder, formats):
    failures = 0
    for name in formats:
        grid, settings = FORMAT_GRIDS[name], [f for f in FORMATS[name]]
        straight, resumed = os.path.join(folder, name), os.path.join(folder, name + " resumed")
        train(folder, "gpt", grid, settings + [f"run.output={straight}"])
        checkpoint = os.path.join(straight, "checkpoints", "step_00000005.h5")
        train(folder, "gpt", grid, settings + [f"run.output={resumed}", f"run.resume={checkpoint}"])
        names = ["loss", "grad_norm", "validation_loss", "loss_scale", "lr", "tokens"]
        ours, theirs = job.metrics(resumed), job.metrics(straight)
        worst = largest_difference(ours, theirs, names)
        scales = [theirs[step]["loss_scale"] for step in range(1, 11)]
        moved = name != "fp16" or len(set(scales)) > 2
        failures += worst != 0 or not moved
        print(f"{'ok  ' if worst == 0 and moved else 'FAIL'} {name:16} {grid:16} {worst:.1e}"
              + (f"  loss scales {' '.join(scales)}" if name == "fp16" else ""), flush=True)
    return failures


def main():
    with job.folder() as folder:
        job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        failures = check_pairs(folder, EVERY if job.ALL else SHORT)
        failures += check_formats(folder, FORMATS)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
