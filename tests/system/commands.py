"""The commands beside train: plan and deck never start MPI, verify passes on every kind of axis."""
import os
import sys

import job

# An MPI library that cannot start: whoever calls MPI_Init fails.
NO_MPI = {**os.environ, "OMPI_MCA_pml": "absent", "OMPI_MCA_btl": "absent", "FI_PROVIDER": "absent"}

MODELS = {
    "gpt": ["model.dropout=0.1"],
    "llama": ["model.kv_heads=2", "model.norm=rms", "model.activation=swiglu", "model.position=rope", "model.bias=qkv",
              "model.tie_embeddings=false", "data.eod=3", "data.mask_eod=true"],
}
GRIDS = [
    ("gpt", ["parallel.tensor=2", "parallel.pipeline=2"], "fp64"),
    ("gpt", ["parallel.pipeline=2", "parallel.virtual_stages=2", "parallel.data=2", "model.sequence=128"], "fp32"),
    ("llama", ["parallel.context=2", "parallel.tensor=2"], "fp64"),
    ("llama", ["parallel.context=2", "parallel.data=2", "parallel.zero=false"], "bf16"),
    ("llama", ["parallel.tensor=2", "parallel.data=2"], "fp16"),
]


def check(name, ended, code, expected):
    faults = [f"exit code {ended.code}, expected {code}"] if ended.code != code else []
    faults += [f"no line holds: {text}" for text in expected if text not in ended.out + ended.err]
    print(f"{'FAIL' if faults else 'ok  '} {name:50} {ended.seconds:5.1f} s", *faults, sep="\n     ", flush=True)
    if faults:
        print(ended.out[-3000:], ended.err[-3000:], sep="\n")
    return bool(faults)


def without_mpi(folder, deck):
    def run(*arguments):
        return job.run(0, arguments, cwd=folder, env=NO_MPI)

    failures = check("deck prints the reference without MPI", run("deck"), 0, ["vocab_multiple", "[parallel]"])
    resolved = run("deck", deck)
    failures += check("deck resolves a deck without MPI", resolved, 0, ["kv_heads = 4", "ffn = 64"])
    again = run("deck", job.write(os.path.join(folder, "resolved.toml"), resolved.out))
    failures += check("a resolved deck resolves to itself", again, 0, [resolved.out])
    failures += check("plan runs without MPI", run("plan", deck, "--ranks", "4", "parallel.pipeline=2"), 0,
                      ["parameters on 4 ranks = pp2 dp2 cp1 tp1", "optimizer", "in all"])
    failures += check("plan of 3072 ranks runs without MPI",
                      run("plan", deck, "--ranks", "3072", "batch.global=3072", "parallel.tensor=2"), 0,
                      ["pp1 dp1536 cp1 tp2"])
    train = run("train", deck, "run.steps=1")
    return failures + check("train does not (so the lines above mean something)", train, 1, [])


def verify(folder, deck):
    failures = 0
    for model, grid, precision in GRIDS:
        name = f"verify {model} {precision} {' '.join(setting.split('.')[1] for setting in grid)}"
        arguments = ["verify", deck, *MODELS[model], *grid, f"precision.compute={precision}", "--steps", "2",
                     "batch.global=8", "parallel.bucket_mb=0.01"]
        failures += check(name, job.run(4, arguments, cwd=folder), 0, ["pass: largest difference"])
    refused = job.run(2, ["verify", deck, "model.layers=0"], cwd=folder)
    return failures + check("verify refuses a deck like train", refused, 2, ["model.layers"])


def main():
    with job.folder() as folder:
        deck = job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        failures = without_mpi(folder, deck) + verify(folder, deck)
        leaves = os.path.exists(os.path.join(folder, "runs"))
        print("FAIL a run folder was made" if leaves else "ok   none of them made a run folder")
    sys.exit(1 if failures or leaves else 0)


if __name__ == "__main__":
    main()
