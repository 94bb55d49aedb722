"""SIGKILL at random moments, half of them during a save: every restart goes on from a committed checkpoint, and the curve is
that of an undisturbed run to the last digit.

--all: 200 kills. SEED in the environment gives other moments.
"""
import os
import random
import signal
import subprocess
import sys
import time

import job

INSPECT = os.path.join(os.path.dirname(job.PROGRAM), "tools", "inspect")
RANKS = 4
SETTINGS = ["parallel.tensor=2", "parallel.data=2", "parallel.bucket_mb=0.05", "model.hidden=64", "model.ffn=256",
            "precision.compute=bf16", "checkpoint.every=2", "checkpoint.keep=2", "run.max_restarts=0"]
WAYS = [[], ["checkpoint.async=false"], ["checkpoint.files=2"]]


def unfinished(folder):
    try:
        return any(name.endswith(".part") for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def wait_for(condition, running, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and running.process.poll() is None:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def newest_step(run):
    try:
        with open(os.path.join(run, "checkpoints", "latest")) as file:
            return int(file.read()[5:13])
    except FileNotFoundError:
        return 0


def kill(run, arguments, numbers, in_save):
    """One life of the run. Its faults, and whether it was killed before its end."""
    committed = newest_step(run)
    running = job.Job(RANKS, ["train", *arguments], cwd=os.path.dirname(run))
    checkpoints = os.path.join(run, "checkpoints")
    log = os.path.join(run, "log.txt")
    size = os.path.getsize(log) if os.path.exists(log) else 0
    wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > size, running, 30)
    if in_save:
        time.sleep(numbers.random() * 0.3)
        wait_for(lambda: unfinished(checkpoints), running, 20)
        time.sleep(numbers.random() * 0.02)
    else:
        time.sleep(numbers.random() * 1.2)
    during = unfinished(checkpoints)
    victims = running.ranks()
    if not victims:
        ended = running.wait(60)
        return ([] if ended.code == 0 else [f"exit code {ended.code}: {ended.err[-1500:]}"]), False, during, ended
    for pid in victims if numbers.random() < 0.5 else [numbers.choice(victims)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    ended = running.wait(60)
    faults = ["ranks left behind"] if running.left_behind(10) else []
    if ended.code is None:
        faults.append("the job did not end")
    return faults + resumed_faults(ended, committed), True, during, ended


def resumed_faults(ended, committed):
    """What a life says it went on from is the newest committed one; nothing was found damaged."""
    faults = []
    if "damaged" in ended.out or "cut short" in ended.out:
        faults.append("a damaged file was met: " + ended.out[-1500:])
    resumed = [line for line in ended.out.splitlines() if line.startswith("resumed from")]
    if committed > 0 and resumed and f": step {committed}," not in resumed[0]:
        faults.append(f"resumed from another step than {committed}: {resumed[0]}")
    return faults


def straight_curve(folder, deck, steps):
    ended = job.run(RANKS, ["train", deck, f"run.steps={steps}", *SETTINGS, "checkpoint.every=0", "checkpoint.at_end=false",
                            f"run.output={os.path.join(folder, 'straight')}"])
    if ended.code != 0:
        raise SystemExit(ended.out + ended.err)
    return job.metrics(os.path.join(folder, "straight"))


def main():
    n_kills = 200 if job.ALL else 8
    steps = 4000 if job.ALL else 160
    seed = int(os.environ.get("SEED", "1"))
    numbers = random.Random(seed)
    failures = kills = in_saves = lives = 0
    print(f"SEED={seed}")
    with job.folder() as folder:
        deck = job.write(os.path.join(folder, "deck.toml"), job.SMALL + "\n[lr]\ndecay = 100000\n")
        run = os.path.join(folder, "run")
        while kills < n_kills:
            arguments = [deck, f"run.steps={steps}", *SETTINGS, *WAYS[lives % 3], f"run.output={run}"]
            faults, killed, during, ended = kill(run, arguments, numbers, lives % 2 == 0)
            lives += 1
            kills += killed
            in_saves += killed and during
            failures += bool(faults)
            print(f"{'FAIL' if faults else 'ok  '} life {lives:3}: {'killed' if killed else 'ended'} at step "
                  f"{newest_step(run):5}{' during a save' if during else ''}", *faults, flush=True)
            if not killed:
                steps += steps
        steps = newest_step(run) + 5
        ended = job.run(RANKS, ["train", deck, f"run.steps={steps}", *SETTINGS, f"run.output={run}"])
        failures += ended.code != 0 or bool(resumed_faults(ended, 0))
        reference, ours = straight_curve(folder, deck, steps), job.metrics(run)
        wrong = [s for s in range(1, steps + 1)
                 if any(ours.get(s, {}).get(key) != reference[s][key] for key in ("loss", "grad_norm"))]
        failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {steps} steps through {kills} kills ({in_saves} during a save): "
              f"{len(wrong)} differ from the undisturbed run", wrong[:10])
        for name in os.listdir(os.path.join(run, "checkpoints")):
            if name.endswith(".part"):
                failures += 1
                print(f"FAIL left behind: {name}")
            if name.endswith(".h5"):
                failures += subprocess.run([INSPECT, "verify", os.path.join(run, "checkpoints", name)],
                                           stdout=subprocess.DEVNULL).returncode != 0
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
