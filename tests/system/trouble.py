"""Steps that are skipped and checkpoints that are gone back to: the same decisions on every grid, an exact replay after a
stop, exit code 5 when nothing helps.

Ordinary noise serves as spikes: with a small optimizer.spike_sigma every few steps are trouble.
"""
import json
import os
import sys

import job
from table import Table

CAREFUL = ["run.steps=60", "checkpoint.every=4", "checkpoint.keep=0", "optimizer.spike_sigma=1.2", "optimizer.spike_window=6",
           "optimizer.max_skips=1", "optimizer.max_rollbacks=100", "precision.compute=fp64", "lr.decay=60",
           "run.check_replicas=7"]


def events(run, kind):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [entry["text"] for entry in map(json.loads, file) if entry.get("event") == kind]


def log_count(run, text):
    with open(os.path.join(run, "log.txt")) as file:
        return sum(text in line for line in file)


def check(table, name, *faults):
    faults = [fault for fault in faults if fault]
    table.failures += bool(faults)
    print(f"{'FAIL' if faults else 'ok  '} {name}", *faults, sep="\n     ", flush=True)


def decisions(run):
    with open(os.path.join(run, "log.txt")) as file:
        return [line.split(":")[0] + line.split(";")[-1] for line in file if "is skipped" in line or "are left out" in line]


def main():
    with job.folder() as folder:
        table = Table(folder)
        deck = job.write(table.path("small.toml"), job.SMALL)
        runs = {}
        for name, ranks, grid in (("one", 1, []), ("tp2 dp2", 4, ["parallel.tensor=2", "parallel.data=2"])):
            runs[name] = table.path(name)
            table.train(f"trouble on {name}", 0, ["is skipped", "are left out"], [deck, *CAREFUL, *grid,
                                                                                f"run.output={runs[name]}"], ranks)
        check(table, "the same decisions on both grids", decisions(runs["one"]) != decisions(runs["tp2 dp2"]) and
              f"{decisions(runs['one'])}\n{decisions(runs['tp2 dp2'])}")
        cut = table.path("cut")
        whole = job.metrics(runs["one"])
        last = [e for e in (os.listdir(os.path.join(runs["one"], "checkpoints"))) if e.endswith(".h5")]
        for name in sorted(last)[2:4]:
            step = int(name[5:13])
            again = f"{cut}{step}"
            table.train(f"replay from {name}", 0, [], [deck, *CAREFUL, f"run.output={again}", "run.max_restarts=0",
                        f"run.resume={os.path.join(runs['one'], 'checkpoints', name)}"], 1)
            ours = job.metrics(again)
            different = [s for s in range(step + 1, 61) if ours.get(s, {}).get("loss") != whole[s].get("loss")]
            check(table, "  is exact to the last digit", different and f"steps {different} differ")
        table.train("trouble without a checkpoint to go back to", 5, ["not finite", "no checkpoint", "First found: "],
                    [deck, "run.steps=50", "lr.max=1e30", "lr.warmup=1", "optimizer.max_skips=2"], 2)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
