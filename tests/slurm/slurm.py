"""The shipped job scripts on a real Slurm of one node: signals, requeue, scancel, a rank that dies, 8 tasks, launchers.

usage: slurm.py [--all] PROGRAM SOURCE_FOLDER      exit code 77: skipped, with the reason
--all: also the signal that Slurm itself sends before the limit, and the end of the job (a quarter of an hour)
"""
import glob
import json
import os
import signal
import sys
import tempfile
import time

import cluster

ALL = "--all" in sys.argv
PROGRAM, SOURCE = [os.path.abspath(word) for word in sys.argv[1:] if word != "--all"]
SIZE = ["--nodes=1", "--cpus-per-task=1", "--gpus-per-node=0"]
TINY = ["model.layers=4", "model.hidden=16", "model.heads=4", "model.sequence=16", "model.vocab=61", "model.vocab_multiple=4",
        "batch.global=4", "batch.micro=1", "data.source=mock", "data.paths=[]", "data.validation_paths=[]", "eval.every=0",
        "checkpoint.every=0", "device.kind=cpu", "device.threads=1", "precision.compute=fp64", "log.every=1",
        "lr.decay=100000"]

LIMIT_SECONDS = 140  # of a run that meets a limit of two minutes

failures = 0


def check(name, *faults):
    global failures
    faults = [fault for fault in faults if fault]
    failures += bool(faults)
    print(f"{'FAIL' if faults else 'ok  '} {name}", *faults, sep="\n     ", flush=True)
    return not faults


def metrics(run):
    steps = {}
    try:
        with open(os.path.join(run, "metrics.jsonl")) as file:
            for line in file:
                entry = json.loads(line, parse_float=str, parse_int=str)
                if "loss" in entry:
                    steps[int(entry["step"])] = (entry["loss"], entry["grad_norm"])
    except (FileNotFoundError, json.JSONDecodeError):
        pass
    return steps


def text_of(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def processes(run):
    """Ranks that work for this run folder: {pid: rank}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
            if words[0] == PROGRAM and f"run.output={run}" in words:
                with open(f"/proc/{pid}/environ") as file:
                    names = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
                found[int(pid)] = int(names.get("SLURM_PROCID", -1))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class Bench:
    def __init__(self, slurm, folder):
        self.slurm, self.folder = slurm, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def submit(self, name, steps, *options, tasks=4, settings=(), script="gpt_1_3b.sbatch"):
        """One of the shipped scripts, cut down to a toy; (job number, run folder, output file)."""
        run, out = self.path(name), self.path(name + ".out")
        number = self.slurm.submit(
            *SIZE, f"--ntasks-per-node={tasks}", "--time=10", f"--output={out}", *options, f"jobs/{script}", *TINY,
            f"run.steps={steps}", f"run.output={run}", *settings, cwd=SOURCE, env={"TRIREME": PROGRAM})
        return number, run, out

    def reached(self, run, step, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and max(metrics(run), default=0) < step:
            time.sleep(0.1)
        return max(metrics(run), default=0) >= step

    def straight(self, name, steps, settings=(), tasks=4, seconds=300):
        number, run, out = self.submit(name, steps, settings=settings, tasks=tasks)
        ended = self.slurm.wait(number, seconds)
        if ended["JobState"] != "COMPLETED":
            raise SystemExit(f"the uninterrupted run: {ended['JobState']}\n{text_of(out)[-3000:]}")
        return metrics(run)


def test_only(bench):
    for path in sorted(glob.glob(os.path.join(SOURCE, "jobs", "*.sbatch"))):
        done = bench.slurm.run("sbatch", "--test-only", *SIZE, "--ntasks-per-node=8", path, cwd=SOURCE)
        check(f"sbatch --test-only {os.path.basename(path)}", done.returncode != 0 and done.stderr.strip())


def compare(name, out, run, ended, steps, straight, *expected):
    ours = metrics(run)
    different = [step for step in straight if ours.get(step) != straight[step]]
    good = check(
        name, ended["JobState"] != "COMPLETED" and f"state {ended['JobState']}, exit code {ended['ExitCode']}",
        ended.get("Restarts", "0") == "0" and "the job was never requeued",
        sorted(ours) != list(range(1, steps + 1)) and f"{len(ours)} steps of {steps} were logged",
        different and f"{len(different)} steps differ from the uninterrupted run, the first is {different[0]}",
        *[text not in text_of(out) and f"the output lacks: {text}" for text in expected],
        bool(processes(run)) and "ranks left behind")
    if not good:
        print(text_of(out)[-3000:])


def requeue(bench):
    """scancel --signal=USR1 in the middle: saved, 75, requeued by the script itself, the same curve to the last digit."""
    steps, settings = 400, ["parallel.tensor=2", "parallel.pipeline=2"]
    straight = bench.straight("straight", steps, settings)
    number, run, out = bench.submit("requeued", steps, settings=settings)
    bench.reached(run, 30)
    stopped = bench.slurm.run("scancel", "--signal=USR1", number)
    ended = bench.slurm.wait(number)
    compare("USR1 to a job: saved, requeued, resumed, the same curve", out, run, ended, steps, straight,
            "User defined signal 1", "stopped early after saving", "resumed from")
    check("scancel --signal=USR1 was accepted", stopped.returncode != 0 and stopped.stderr)


def cancelled(bench):
    number, run, out = bench.submit("cancelled", 100000)
    bench.reached(run, 20)
    bench.slurm.run("scancel", number)
    ended = bench.slurm.wait(number)
    time.sleep(1)
    good = check("scancel: saved before the end", ended["JobState"] != "CANCELLED" and ended["JobState"],
                 not os.path.exists(os.path.join(run, "checkpoints", "latest")) and "no checkpoint",
                 bool(processes(run)) and "ranks left behind")
    if not good:
        print(text_of(out)[-3000:])


def dies(bench):
    number, run, out = bench.submit("dies", 100000, settings=["checkpoint.every=10"])
    bench.reached(run, 30)
    victims = processes(run)
    os.kill(min(pid for pid, rank in victims.items() if rank == 2), signal.SIGKILL)
    moment = time.monotonic()
    ended = bench.slurm.wait(number)
    seconds = time.monotonic() - moment
    time.sleep(0.5)
    check("a rank is killed: the job fails at once", ended["JobState"] != "FAILED" and ended["JobState"],
          seconds > 30 and f"{seconds:.0f} s", bool(processes(run)) and "ranks left behind")
    number, run, out = bench.submit("dies", max(metrics(run), default=0) + 20, tasks=2)
    ended = bench.slurm.wait(number)
    check("  and the next job resumes, here on half the ranks", ended["JobState"] != "COMPLETED" and ended["JobState"],
          "resumed from" not in text_of(out) and text_of(out)[-2000:])


def tasks(bench):
    number, run, out = bench.submit("eight", 20, tasks=8, settings=["parallel.tensor=2", "parallel.pipeline=2"])
    ended = bench.slurm.wait(number)
    check("8 tasks with --mpi=pmix", ended["JobState"] != "COMPLETED" and text_of(out)[-2000:],
          "8 ranks = pp2 dp2 cp1 tp2" not in text_of(out) and "not one job of 8 ranks",
          "the job ends at" not in text_of(out) and "the end of the job was not found")


def launchers(bench):
    """mpirun inside a job works; a launcher that MPI does not understand is an error, never many runs of one rank."""
    lines = {"mpirun": "mpirun --oversubscribe -n 4", "srun --mpi=none": "srun -n 4 --mpi=none"}
    for name, launch in lines.items():
        run, out, script = bench.path(name), bench.path(name + ".out"), bench.path("launch.sh")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\n{launch} '{PROGRAM}' train '{SOURCE}/inputs/gpt_1_3b.toml' \"$@\"\n")
        number = bench.slurm.submit("--ntasks=4", "--time=5", f"--output={out}", script, *TINY, "run.steps=5",
                                    f"run.output={run}", cwd=bench.folder)
        ended = bench.slurm.wait(number)
        if name == "mpirun":
            check("mpirun inside a job", ended["JobState"] != "COMPLETED" and text_of(out)[-2000:],
                  "4 ranks" not in text_of(out) and "not one job of 4 ranks")
        else:
            check(f"{name} does not pass for a job of one rank", ended["JobState"] != "FAILED" and ended["JobState"],
                  ended["ExitCode"] != "2:0" and f"exit code {ended['ExitCode']}", bool(metrics(run)) and "it trained",
                  text_of(out).count("trireme: ") != 1 and "not one message",
                  "srun --mpi=pmix" not in text_of(out) and "the message does not say what to do")


def limit(bench):
    """Slurm's own signal before the limit, then the requeued job goes on; and the end of the job without any signal.

    The run must outlast the signal, which comes after about a minute: what this machine needs for a step is measured first.
    """
    settings = ["batch.global=64", "model.sequence=64", "checkpoint.every=100"]
    began = time.monotonic()
    bench.straight("limit rate", 100, settings, seconds=300)
    steps = max(500, int(100 * LIMIT_SECONDS / (time.monotonic() - began)))
    print(f"{steps} steps", flush=True)
    for name, options, expected in (
            ("--signal=USR1@60 before a limit of 2 minutes", ["--time=2", "--signal=USR1@60"], "User defined signal 1"),
            ("the limit of 2 minutes, without a signal", ["--time=2", "--signal=CONT@1"], "the batch job ends before")):
        straight = metrics(bench.path("limit straight")) or bench.straight("limit straight", steps, settings, seconds=500)
        number, run, out = bench.submit("limit " + expected.split()[-1], steps, *options, settings=settings)
        ended = bench.slurm.wait(number, 900)
        compare(name, out, run, ended, steps, straight, expected, "resumed from")


def main():
    reason = cluster.missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="trireme_slurm_") as folder, cluster.Cluster(folder) as slurm:
        bench = Bench(slurm, folder)
        for group in (test_only, requeue, cancelled, dies, tasks, launchers, *([limit] if ALL else [])):
            print(f"--- {group.__name__}", flush=True)
            group(bench)
        if failures:
            print(slurm.logs())
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
