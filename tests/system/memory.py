"""The planned memory is what a run takes: the peak resident set of every rank, less what MPI and the libraries take by
themselves, against the plan of its stage.
"""
import os
import re
import subprocess
import sys

import job

MIB = 1 << 20
# Code of the libraries (CUDA's alone is 190 MiB where it is built in), MPI's shared-memory buffers, packing buffers of the
# matrix products: what a tiny model takes beside its own plan on the same grid.
TINY = ["run.steps=2", "run.resume=never", "checkpoint.at_end=false"]
PACKING = 6 * MIB  # larger products touch more of the packing buffers: measured 3 to 9
FRAGMENTS = 3 * MIB  # Open MPI's shared memory for long messages, for each rank that shares the gradients: grows with use
TOLERANCE = 0.02
BIG = ["run.steps=2", "run.resume=never", "checkpoint.at_end=false", "model.layers=8", "model.hidden=512",
       "model.heads=8", "model.vocab=8192", "model.tie_embeddings=false", "model.sequence=256", "batch.global=4"]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def planned(folder, ranks, model, settings):
    """Bytes of each stage, from the last column of the plan's memory table."""
    ended = job.run(0, ["plan", "deck.toml", "--ranks", ranks, *model, *settings], cwd=folder)
    table = ended.out.split("Memory")[1].split("\n\n")[0]
    bytes_of_stages = []
    for line in table.splitlines()[2:]:
        first, last = (re.match(r"(\d+)(?:-(\d+))?", line).groups())
        number, unit = re.search(r"([\d.]+) (B|KiB|MiB|GiB)$", line).groups()
        bytes_of_stages += [float(number) * UNITS[unit]] * (int(last or first) - int(first) + 1)
    return bytes_of_stages


def peaks(folder, ranks, model, settings):
    os.makedirs(os.path.join(folder, "peaks"), exist_ok=True)
    peak = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peak.py")
    launch = [*job.LAUNCHER, str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launch, sys.executable, peak, "peaks", job.PROGRAM, "train", "deck.toml", *model, *settings],
                          capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    values = []
    for rank in range(ranks):
        with open(os.path.join(folder, "peaks", str(rank))) as file:
            values.append(int(file.read()))
    return values


def main():
    failures = 0
    cases = [(1, []), (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2"]), (2, ["parallel.data=2"]),
             (4, ["parallel.data=4", "parallel.bucket_mb=4"])]
    if job.ALL:
        cases += [(4, ["parallel.tensor=4"]), (4, ["parallel.data=4", "parallel.zero=false"]),
                  (2, ["parallel.context=2"]), (2, ["parallel.data=2", "parallel.bucket_mb=1"]),
                  (1, ["parallel.recompute=block"]), (2, ["parallel.context=2", "parallel.bucket_mb=4"]),
                  (4, ["parallel.pipeline=2", "parallel.virtual_stages=2", "parallel.tensor=2"])]
    with job.folder() as folder:
        job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        for ranks, settings in cases:
            replicas = ranks if any("data" in s or "context" in s for s in settings) else 1
            stages, tiny_stages = (planned(folder, ranks, model, settings) for model in (BIG, TINY))
            tiny_peaks = peaks(folder, ranks, TINY, settings)
            print(f"{ranks} ranks {' '.join(settings)}")
            for rank, peak in enumerate(peaks(folder, ranks, BIG, settings)):
                stage = rank * len(stages) // ranks
                libraries = tiny_peaks[rank] - tiny_stages[stage] + PACKING + FRAGMENTS * (replicas - 1)
                off = (peak - libraries) / stages[stage] - 1
                good = abs(off) <= TOLERANCE
                failures += not good
                print(f"  {'ok  ' if good else 'FAIL'} rank {rank}: planned {stages[stage] / MIB:7.2f} MiB, peak "
                      f"{peak / MIB:7.2f} MiB, less {libraries / MIB:.0f} for libraries {100 * off:+.2f} %", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
