"""A random rank is killed, frozen or delayed at a random moment: the right report names the right rank, all ranks are gone in
time, and the run that is started again ends with the curve of one that was never disturbed, to the last digit.

--all: fifty times each (half an hour).
"""
import os
import random
import signal
import sys
import time

import job
from table import Table

STEPS, RANKS, PATIENCE = 160, 4, 2.4
SETTINGS = [f"run.steps={STEPS}", "checkpoint.every=8", "checkpoint.keep=2", "precision.compute=fp64", "lr.decay=200",
            "parallel.tensor=2", "run.max_restarts=0", f"run.hang_minutes={PATIENCE / 60}"]


def curve(run):
    return {step: (row["loss"], row["grad_norm"]) for step, row in job.metrics(run).items() if "loss" in row}


def disturbed(table, deck, run, rng):
    """A running job and the moment: some steps in, then a fraction of a step."""
    running = job.Job(RANKS, ["train", deck, *SETTINGS, f"run.output={run}"], cwd=table.folder)
    step, deadline = rng.randrange(1, STEPS // 2), time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None:
        try:
            if max(curve(run), default=0) >= step:
                break
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.02)
    time.sleep(rng.random() * 0.1)
    return running


def strike(kind, pid, rng):
    if kind == "kill":
        os.kill(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGSTOP)
    if kind == "delay":
        time.sleep(0.2 + rng.random() * PATIENCE / 3)
        os.kill(pid, signal.SIGCONT)


def case(table, deck, kind, number, straight):
    rng = random.Random(f"{kind} {number}")
    run = table.path(f"{kind}{number}")
    running = disturbed(table, deck, run, rng)
    ranks = running.ranks()
    if len(ranks) != RANKS:
        return table.check(f"{kind} {number}", running.wait(60), 0, [], ["the job was over before the fault"])
    which, moment = rng.randrange(RANKS), time.monotonic()
    strike(kind, ranks[which], rng)
    ended = running.wait(90)
    seconds = time.monotonic() - moment
    faults = ["ranks left behind"] if running.left_behind() else []
    faults += [f"{seconds:.1f} s until all were gone"] if kind != "delay" and seconds > PATIENCE + 30 else []
    code, expected = {"kill": (None, []), "delay": (0, ["finished"]),
                      "stop": (4, [f"did not arrive: rank {which} on", "no sign of life"])}[kind]
    if kind != "delay":
        again = job.Job(RANKS, ["train", deck, *SETTINGS, f"run.output={run}"], cwd=table.folder).wait(90)
        faults += [f"started again: exit code {again.code} {again.err[-500:]}"] if again.code != 0 else []
    elif "hang" in ended.err:
        faults.append("a delay below the patience was reported")
    different = [step for step in straight if curve(run).get(step) != straight[step]]
    faults += [f"{len(different)} steps differ from the undisturbed run, first {different[0]}"] if different else []
    table.check(f"{kind} {number}: rank {which}", ended, code, expected, faults)


def main():
    with job.folder() as folder:
        table = Table(folder)
        deck = job.write(table.path("small.toml"), job.SMALL)
        ended = job.Job(RANKS, ["train", deck, *SETTINGS, f"run.output={table.path('straight')}"]).wait(120)
        table.check("undisturbed", ended, 0, ["finished"])
        straight = curve(table.path("straight"))
        for number in range(50 if job.ALL else 1):
            for kind in ("kill", "stop", "delay"):
                case(table, deck, kind, number, straight)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
