"""Hardware of one rank that fails while a job runs: a NaN in a gradient, once and again and again, a bit of a weight that
flips, a processor that is slow. Each is found and named with its rank; where the run goes on, its curve is that of a sound machine.

The library that disturbs matrix products comes first on the command line: hardware.py LIBRARY PROGRAM LAUNCHER...
"""
import json
import os
import re
import signal
import struct
import sys
import time

LIBRARY = os.path.abspath(sys.argv.pop(1))
import job  # noqa: E402  (takes the rest of the command line)
from table import Table  # noqa: E402

GRID = ["parallel.tensor=2", "parallel.data=2", "precision.compute=fp64", "lr.decay=30"]
CAREFUL = ["optimizer.max_skips=2", "run.steps=30", "checkpoint.every=10"]


def disturbed(ranks, arguments, fault):
    env = {**os.environ, "LD_PRELOAD": LIBRARY, **{name: str(value) for name, value in fault.items()}}
    launcher = job.LAUNCHER
    forwarded = [word for name in ("LD_PRELOAD", *fault) for word in ("-x", name)]
    job.LAUNCHER = [launcher[0], *forwarded, *launcher[1:]]
    started = job.Job(ranks, arguments, env=env)
    job.LAUNCHER = launcher
    return started


def events(run, kind):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [entry for entry in map(json.loads, file) if entry.get("event") == kind]


def curve(run):
    return {step: (row["loss"], row["grad_norm"]) for step, row in job.metrics(run).items() if "loss" in row}


def once(table, deck):
    """Half way through a step, in one gradient of one rank: computed again it is right, so it was no mathematics."""
    arguments = ["train", deck, *GRID, *CAREFUL]
    sound = job.Job(4, [*arguments, f"run.output={table.path('sound')}"]).wait()
    table.check("a sound machine", sound, 0, ["finished"])
    for rank, first in ((2, 700), (1, 1333)):
        run = table.path(f"once{rank}")
        fault = {"FAULT_RANK": rank, "FAULT_FIRST": first, "FAULT_TIMES": 1}
        ended = disturbed(4, [*arguments, f"run.output={run}"], fault).wait()
        faults = [] if len(events(run, "transient")) == 1 else [f"{len(events(run, 'transient'))} events"]
        faults += [] if curve(run) == curve(table.path("sound")) else ["the curve is not that of a sound machine"]
        table.check(f"a NaN in one gradient of rank {rank}, once", ended, 0, ["hardware is likely", "finished"], faults)


def again(table, deck):
    """From some step on, every weight gradient of one rank: named with tensor, layer, rank and micro-batch; nothing helps."""
    run = table.path("again")
    ended = disturbed(4, ["train", deck, *GRID, *CAREFUL, "optimizer.max_rollbacks=1", f"run.output={run}"],
                      {"FAULT_RANK": 3, "FAULT_FIRST": 1000, "FAULT_TIMES": 10**9}).wait()
    named = re.search(r"First found: the gradient of (\S+) \(layer \d+\) on rank 3 .*micro-batch \d", ended.err)
    table.check("NaNs in all gradients of rank 3", ended, 5, ["not finite", "First found: the gradient of"],
                [] if named else ["tensor, layer, rank 3 and micro-batch are not named"])


def memory_of(pid):
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            span, rights, *_ = line.split()
            if rights.startswith("rw") and "[" not in line:
                yield [int(end, 16) for end in span.split("-")]


def flip(pid, pattern):
    """The lowest bit of the first number of every copy of `pattern` in the memory of a process; how many there are."""
    n = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for begin, end in memory_of(pid):
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, ValueError):
                continue
            at = content.find(pattern)
            while at >= 0:
                memory.seek(begin + at)
                memory.write(bytes([content[at] ^ 1]))
                n += 1
                at = content.find(pattern, at + len(pattern))
    return n


def weight(table, deck):
    """The gains of a norm stay at 1 while the learning rate is next to nothing: their memory can be found from outside.

    Without ZeRO: with it, the next gathering of the weights repairs such a bit.
    """
    run = table.path("weight")
    running = job.Job(4, ["train", deck, "parallel.data=4", "parallel.zero=false", "precision.compute=fp64", "lr.max=1e-300",
                          "lr.min=0", "run.steps=1000000", "log.every=10", "run.check_replicas=20", "model.hidden=24", f"run.output={run}"])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None:
        try:
            if max(job.metrics(run), default=0) >= 50:
                break
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.05)
    rank = running.ranks()[2]
    try:
        os.kill(rank, signal.SIGSTOP)  # else the first flipped copy ends the run while its memory is still looked through
        try:
            copies = flip(rank, struct.pack("<d", 1.0) * 24)
        finally:
            os.kill(rank, signal.SIGCONT)
    except PermissionError:
        running.process.terminate()
        running.wait()
        print("skipped: a bit of a weight (this user may not write the memory of another process)")
        return
    ended = running.wait(40)
    table.check("a bit of a weight on rank 2", ended, 4, ["on rank 2 ", "differs from the other replicas", "layer"],
                [] if copies > 0 else ["no gain was found in memory"])


def slow(table, deck):
    run = table.path("slow")
    ended = disturbed(4, ["train", deck, "parallel.data=4", "precision.compute=fp64", "run.steps=60", "log.every=4",
                          f"run.output={run}"], {"FAULT_RANK": 1, "FAULT_MICROSECONDS": 400}).wait()
    named = [event["text"] for event in events(run, "straggler")]
    faults = [] if len(named) == 1 and named[0].startswith("rank 1 on ") else [f"named: {named}"]
    rows = [row for row in job.metrics(run).values() if "busy_max_s" in row]
    faults += [] if rows and all(int(row["slowest_rank"]) == 1 for row in rows) else ["metrics.jsonl names another rank"]
    table.check("a slow rank 1", ended, 0, ["finished"], faults)


def main():
    with job.folder() as folder:
        table = Table(folder)
        deck = job.write(table.path("small.toml"), job.SMALL)
        for group in (once, again, weight, slow):
            group(table, deck)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
