"""Ranks that are lost, told to stop or out of time: exit code, messages, no rank left, and the next run goes on."""
import os
import re
import signal
import sys
import time

import job
from table import Table


def started(table, run, step, ranks, *overrides):
    """A job whose log has reached `step`."""
    arguments = ["train", table.path("small.toml"), "run.steps=200000", "log.every=10", f"run.output={run}", *overrides]
    running = job.Job(ranks, arguments, cwd=table.folder)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None:
        try:
            if max(job.metrics(run), default=0) >= step:
                break
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.05)
    return running


def lost_ranks(table):
    run = table.path("killed")
    running = started(table, run, 20, 4, "checkpoint.every=5", "parallel.tensor=2", "parallel.pipeline=2")
    os.kill(running.ranks()[2], signal.SIGKILL)
    moment = time.monotonic()
    ended = running.wait(60)
    seconds = time.monotonic() - moment
    faults = [f"ended {seconds:.1f} s after the kill"] if seconds > 15 else []
    if running.left_behind():
        faults.append("ranks left behind")
    table.check("one rank killed", ended, None, [], faults)
    saved = saved_step(run)
    more = [table.path("small.toml"), f"run.steps={saved + 5}", f"run.output={run}", "checkpoint.every=5"]
    table.train("  and resumed on half the ranks", 0, [f"step {saved},", "finished"], more)


def saved_step(run):
    with open(os.path.join(run, "checkpoints", "latest")) as file:
        return int(re.search(r"\d+", file.read()).group())


def stopped(table, name, ranks, which, settings):
    """Sends a signal to one rank; the run folder and the step at which it stopped."""
    run = table.path(f"{name}{ranks}")
    running = started(table, run, 10, ranks, *settings)
    os.kill(running.ranks()[which], getattr(signal, name))
    ended = running.wait(60)
    faults = ["ranks left behind"] if running.left_behind() else []
    table.check(f"{name} to rank {which} of {ranks}", ended, 75, ["stopped early after saving"], faults)
    return run, saved_step(run)


def signals(table):
    settings = ["lr.decay=100000", "precision.compute=fp64"]
    for name, ranks, which in (("SIGTERM", 4, 3), ("SIGUSR1", 2, 0), ("SIGUSR2", 1, 0)):
        run, stop = stopped(table, name, ranks, which, settings)
        whole = run + " straight"
        more = [table.path("small.toml"), f"run.steps={stop + 5}", "log.every=1", *settings]
        again = table.train("  and resumed", 0, [f"step {stop},"], [*more, f"run.output={run}"], ranks)
        straight = table.train("  the same without a stop", 0, [], [*more, f"run.output={whole}"], ranks)
        ours, theirs = job.metrics(run), job.metrics(whole)
        same = again.code == straight.code == 0 and all(
            ours[step][key] == theirs[step][key] for step in range(stop + 1, stop + 6) for key in ("loss", "grad_norm"))
        table.failures += not same
        print(f"{'ok  ' if same else 'FAIL'}   the curve after step {stop} is the same to the last digit")


def frozen_ranks(table):
    """A rank that is stopped from outside is named, and the job ends by itself."""
    for which in (0, 3):
        running = started(table, table.path(f"frozen{which}"), 20, 4, "parallel.tensor=2", "parallel.pipeline=2",
                          "run.hang_minutes=0.04")
        os.kill(running.ranks()[which], signal.SIGSTOP)
        moment = time.monotonic()
        ended = running.wait(60)
        seconds = time.monotonic() - moment
        faults = [f"ended {seconds:.1f} s after the stop"] if seconds > 25 else []
        if running.left_behind():
            faults.append("ranks left behind")
        table.check(f"rank {which} is frozen", ended, 4, [f"did not arrive: rank {which} on", "no sign of life"], faults)


def numerics(table):
    run = table.path("numerics")
    table.train("numbers that are not finite", 5, ["step", "not finite", "lr.max"],
                [table.path("small.toml"), "run.steps=50", "lr.max=1e30", "lr.warmup=1", f"run.output={run}"], ranks=4)


def wall_time(table):
    run = table.path("minutes")
    start = time.monotonic()
    running = job.Job(2, ["train", table.path("small.toml"), "run.steps=1000000", "log.every=1000",
                          "run.max_minutes=0.05", f"run.output={run}"], cwd=table.folder)
    ended = running.wait(60)
    faults = [f"took {ended.seconds:.1f} s for run.max_minutes of 3 s"] if time.monotonic() - start > 12 else []
    if saved_step(run) < 1:
        faults.append("nothing was saved")
    table.check("run.max_minutes", ended, 75, ["stopped early after saving"], faults)


def trigger_files(table):
    run = table.path("files")
    running = started(table, run, 10, 2)
    job.write(os.path.join(run, "save"), "")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not os.path.exists(os.path.join(run, "checkpoints", "latest")):
        time.sleep(0.05)
    faults = []
    if not os.path.exists(os.path.join(run, "checkpoints", "latest")) or running.process.poll() is not None:
        faults.append("the file `save` did not save, or ended the run")
    else:
        saved = saved_step(run)
        job.write(os.path.join(run, "stop"), "")
    ended = running.wait(60)
    if not faults and saved_step(run) <= saved:
        faults.append("nothing was saved after the file `stop`")
    faults += [f"the file {name} is still there" for name in ("save", "stop") if os.path.exists(os.path.join(run, name))]
    table.check("files `save` and `stop`", ended, 75, ["asks for a checkpoint", "asks to stop"], faults)


def no_progress(table):
    """The start after two that were killed before anything was saved is refused; with another setting it is not."""
    run = table.path("restarts")
    arguments = [table.path("small.toml"), "run.steps=100000", "log.every=100000", "run.max_restarts=2", f"run.output={run}"]
    for _ in range(2):
        running = job.Job(1, ["train", *arguments], cwd=table.folder)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not os.path.exists(os.path.join(run, "metrics.jsonl")):
            time.sleep(0.05)
        os.kill(running.ranks()[0], signal.SIGKILL)
        running.wait(60)
        os.remove(os.path.join(run, "metrics.jsonl"))
    table.train("a third start without progress", 4, ["run.max_restarts = 2", "from step 0"], arguments)
    table.train("  and with another setting", 0, [], [*arguments, "run.steps=3"])
    table.train("  and after progress", 0, [], [*arguments, "run.steps=4"])


def job_end(table):
    """Slurm's end of the job, here from the environment alone: the margin decides."""
    run = table.path("job_end")
    env = {**os.environ, "SLURM_JOB_END_TIME": str(int(time.time()) + 8)}
    arguments = ["train", table.path("small.toml"), "run.steps=1000000", "log.every=1000", "run.margin_minutes=0.08",
                 f"run.output={run}"]
    ended = job.Job(2, arguments, cwd=table.folder, env=env).wait(60)
    faults = [f"took {ended.seconds:.1f} s of 8"] if ended.seconds > 8 else []
    table.check("the end of the batch job", ended, 75, ["SLURM_JOB_END_TIME", "the batch job ends before"], faults)
    late = {**os.environ, "SLURM_JOB_END_TIME": str(int(time.time()) + 100000)}
    ended = job.Job(2, [*arguments, "run.steps=5"], cwd=table.folder, env=late).wait(60)
    table.check("  and a job that is long enough", ended, 0, ["SLURM_JOB_END_TIME"])


def main():
    with job.folder() as folder:
        table = Table(folder)
        job.write(table.path("small.toml"), job.SMALL)
        for group in (lost_ranks, frozen_ranks, signals, numerics, wall_time, trigger_files, no_progress, job_end):
            print(f"--- {group.__name__}", flush=True)
            group(table)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
