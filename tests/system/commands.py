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


def main():
    failures = 0
    with job.folder() as folder:
        deck = job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        options = {"cwd": folder, "env": NO_MPI}
        failures += check("deck prints the reference without MPI", job.run(0, ["deck"], **options), 0, ["vocab_multiple", "[parallel]"])
        resolved = job.run(0, ["deck", deck], **options)
        failures += check("deck resolves a deck without MPI", resolved, 0, ["kv_heads = 4", "ffn = 64"])
        job.write(os.path.join(folder, "resolved.toml"), resolved.out)
        again = job.run(0, ["deck", "resolved.toml"], **options)
        failures += check("a resolved deck resolves to itself", again, 0, [])
        failures += again.out != resolved.out
        failures += check("plan runs without MPI", job.run(0, ["plan", deck, "--ranks", "4", "parallel.pipeline=2"], **options), 0,
                          ["parameters on 4 ranks = pp2 dp2 cp1 tp1", "optimizer", "in all"])
        failures += check("plan of 3072 ranks runs without MPI",
                          job.run(0, ["plan", deck, "--ranks", "3072", "batch.global=3072", "parallel.tensor=2"], **options), 0,
                          ["pp1 dp1536 cp1 tp2"])
        for model, grid, precision in GRIDS:
            arguments = ["verify", deck, *MODELS[model], *grid, f"precision.compute={precision}", "--steps", "2", "batch.global=8",
                         "parallel.bucket_mb=0.01"]
            failures += check(f"verify {model} {precision} {' '.join(g.split('.')[1] for g in grid)}", job.run(4, arguments, cwd=folder), 0,
                              ["pass: largest difference"])
        failures += check("verify refuses a deck like train", job.run(2, ["verify", deck, "model.layers=0"], cwd=folder), 2, ["model.layers"])
        failures += os.path.exists(os.path.join(folder, "runs"))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
