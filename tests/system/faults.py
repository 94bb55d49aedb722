"""Saves that fail: an error of one rank's write at a random byte, a full disk, a folder that is gone or read-only. No hang, one clear
message, older checkpoints untouched; the next run goes on from a committed one with the numbers of an undisturbed run.

--all: 20 errors and 20 full disks. The library that injects errors comes first on the command line:
faults.py [--all] LIBRARY PROGRAM LAUNCHER...
"""
import errno
import os
import random
import re
import subprocess
import sys
import time

at = 2 if sys.argv[1:2] == ["--all"] else 1
LIBRARY = os.path.abspath(sys.argv.pop(at))
import job  # noqa: E402  (takes the rest of the command line)

INSPECT = os.path.join(os.path.dirname(job.PROGRAM), "tools", "inspect")
GRID = ["parallel.tensor=2", "parallel.data=2", "parallel.bucket_mb=0.05"]
COMMON = ["model.hidden=64", "model.ffn=256", "precision.compute=bf16", "run.steps=12", "checkpoint.every=3",
          "checkpoint.keep=0", "lr.decay=12"]
SECONDS = 120  # a run takes 3 to 6 on an idle machine; a hang lasts for ever


class Faults:
    def __init__(self, folder):
        self.folder, self.failures, self.n = folder, 0, 0
        self.reference = self.train("reference", [], {})

    def run(self, output, more, fault):
        return self.start(output, more, fault).wait(SECONDS)

    def start(self, output, more, fault):
        env = {**os.environ, **({"LD_PRELOAD": LIBRARY} if fault else {}), **fault}
        launcher = job.LAUNCHER
        if fault:
            forwarded = [word for name in ("LD_PRELOAD", *fault) for word in ("-x", name)]
            job.LAUNCHER = [launcher[0], *forwarded, *launcher[1:]]
        started = job.Job(4, ["train", os.path.join(self.folder, "deck.toml"), *COMMON, *GRID,
                              f"run.output={output}", *more], cwd=self.folder, env=env)
        job.LAUNCHER = launcher
        return started

    def train(self, name, more, fault):
        output = os.path.join(self.folder, name)
        ended = self.run(output, more, fault)
        if ended.code != 0:
            raise SystemExit(f"{name}: exit code {ended.code}\n{ended.out[-2000:]}{ended.err[-2000:]}")
        return job.metrics(output)

    def report(self, name, faults, ended):
        self.failures += bool(faults)
        said = "; ".join(ended.messages())[:200]
        print(f"{'FAIL' if faults else 'ok  '} {name:52} {ended.code!s:>4} {ended.seconds:5.1f} s  {said}", *faults,
              sep="\n     ", flush=True)
        if faults:
            print(ended.out[-2500:], ended.err[-2500:], sep="\n")

    def goes_on(self, output, more=()):
        """Faults of the run that goes on: what it resumes from is good, its numbers those of the reference."""
        folder = os.path.join(output, "checkpoints")
        found = []
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.endswith(".h5") and subprocess.run([INSPECT, "verify", os.path.join(folder, name)],
                                                       capture_output=True).returncode != 0:
                found.append(f"{name} is damaged")
        ended = self.run(output, list(more), {})
        if ended.code != 0 or "damaged" in ended.out + ended.err:
            found.append(f"the next run: exit code {ended.code}: {ended.out[-1500:]}{ended.err[-1500:]}")
            return found
        ours = job.metrics(output)
        for step in range(1, 13):
            for key in ("loss", "grad_norm"):
                if ours.get(step, {}).get(key) != self.reference[step][key]:
                    found.append(f"step {step}: {key} {ours.get(step, {}).get(key)}, expected {self.reference[step][key]}")
        return found[:3]

    def fails(self, name, text, more, fault):
        """on_error = "stop": exit code 3, one message, nothing unfinished left, and the next run goes on."""
        self.n += 1
        output = os.path.join(self.folder, f"run{self.n}")
        ended = self.run(output, more, fault)
        faults = [] if ended.code == 3 else [f"exit code {ended.code}, expected 3"]
        for expected in (text, "older checkpoints are untouched"):
            if expected not in ended.err:
                faults.append(f"no message holds: {expected}")
        if len(ended.messages()) != 1:
            faults.append(f"{len(ended.messages())} messages, expected 1")
        left = [n for n in os.listdir(os.path.join(output, "checkpoints")) if n.endswith(".part")]
        self.report(name, faults + [f"left behind: {n}" for n in left] + self.goes_on(output), ended)

    def survives(self, name, text, more, fault, saved):
        """on_error = "continue": the run finishes, says what was not saved, and saves again when it can."""
        self.n += 1
        output = os.path.join(self.folder, f"run{self.n}")
        ended = self.run(output, ["checkpoint.on_error=continue", *more], fault)
        faults = [] if ended.code == 0 else [f"exit code {ended.code}, expected 0"]
        for expected in ("is not saved", text):
            if expected not in ended.out:
                faults.append(f"the log does not hold: {expected}")
        found = sorted(n for n in os.listdir(os.path.join(output, "checkpoints")) if n.endswith(".h5"))
        if found != saved:
            faults.append(f"checkpoints {found}, expected {saved}")
        self.report(name, faults + self.goes_on(output), ended)


def injected(faults, random_numbers):
    size = max(os.path.getsize(os.path.join(faults.folder, "reference", "checkpoints", name))
               for name in os.listdir(os.path.join(faults.folder, "reference", "checkpoints")) if name.endswith(".h5"))
    for i in range(20 if job.ALL else 3):
        # Saves 1 to 3; ranks other than 0 write a quarter of the data.
        rank = random_numbers.randrange(4)
        byte = random_numbers.randrange(int(size * (1 if rank == 0 else 0.7)))
        code = random_numbers.choice([errno.EIO, errno.ENOSPC, errno.EDQUOT])
        ways = [["checkpoint.async=false"], [], ["checkpoint.files=3"]][i % 3]
        fault = {"FAULT_RANK": str(rank), "FAULT_BYTES": str(byte), "FAULT_ERRNO": str(code)}
        faults.fails(f"{errno.errorcode[code]} on rank {rank} after {byte} bytes {' '.join(ways)}", os.strerror(code), ways,
                     fault)
    fault = {"FAULT_RANK": "2", "FAULT_BYTES": "1000", "FAULT_ERRNO": str(errno.ENOSPC), "FAULT_TIMES": "1"}
    saved = [f"step_{step:08}.h5" for step in (6, 9, 12)]
    faults.survives("ENOSPC once, continue", os.strerror(errno.ENOSPC), [], fault, saved)
    fault["FAULT_RANK"] = "0"
    faults.survives("ENOSPC once on rank 0, continue, synchronous", os.strerror(errno.ENOSPC),
                    ["checkpoint.async=false"], fault, saved)


def full_disks(faults, random_numbers):
    """A file system of its own with room for one or two checkpoints."""
    mount = os.path.join(faults.folder, "small")
    os.makedirs(mount)
    one = os.path.getsize(os.path.join(faults.folder, "reference", "checkpoints", "step_00000003.h5"))
    for i in range(20 if job.ALL else 2):
        kib = int(one * (1.05 + random_numbers.random() * 1.8)) // 1024 + 64
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", mount], capture_output=True)
        if done.returncode != 0:
            print("skipped: full disks (this user may not mount a tmpfs)")
            return
        try:
            output = os.path.join(mount, "run")
            ended = faults.run(output, [["checkpoint.async=false"], []][i % 2], {})
            found = [] if ended.code == 3 else [f"exit code {ended.code}, expected 3"]
            if "No space left" not in ended.err or "checkpoint.keep" not in ended.err:
                found.append("the message does not say that the disk is full and what to do")
            subprocess.run(["mount", "-o", "remount,size=1g", mount], check=True)
            faults.report(f"a disk of {kib} KiB for checkpoints of {one // 1024}", found + faults.goes_on(output), ended)
        finally:
            subprocess.run(["umount", "-l", mount], check=True)


def gone(faults):
    """The folder vanishes: a run that may go on does, and says so."""
    output = os.path.join(faults.folder, "gone")
    os.makedirs(output)
    with open(os.path.join(output, "checkpoints"), "w") as file:  # no folder can be made here
        file.write("in the way")
    ended = faults.run(output, [], {})
    found = [] if ended.code == 3 and "run.output" in ended.err else [f"exit code {ended.code}, expected 3"]
    faults.report("a file where the folder should be", found, ended)


def mounted(*words):
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


class ReadOnly:
    """The folder is a file system of its own, which becomes read-only."""
    text = "Read-only file system"

    def __init__(self, folder):
        self.folder = folder
        self.possible = mounted("-t", "tmpfs", "-o", "size=256m", "tmpfs", folder)

    def strike(self):
        while not mounted("-o", "remount,ro", self.folder):  # busy while a checkpoint is being written
            time.sleep(0.001)

    def undo(self):
        mounted("-o", "remount,rw", self.folder)

    def end(self):
        subprocess.run(["umount", "-l", self.folder], check=self.possible)


class Vanished:
    text, possible = "No such file or directory", True

    def __init__(self, folder):
        self.folder = folder

    def strike(self):
        os.rename(self.folder, self.folder + ".away")

    def undo(self):
        os.rename(self.folder + ".away", self.folder)

    def end(self):
        pass


def taken_away(faults, kind, policy):
    """Something happens to the folder of the checkpoints of a run that goes on. Later it is as before."""
    faults.n += 1
    output = os.path.join(faults.folder, f"run{faults.n}")
    folder = os.path.join(output, "checkpoints")
    os.makedirs(folder)
    fault = kind(folder)
    if not fault.possible:
        print("skipped: a folder that becomes read-only (this user may not mount a tmpfs)")
        return
    try:
        steps = 20000 if policy == "stop" else 24
        running = faults.start(output, [f"run.steps={steps}", "checkpoint.keep=3", "checkpoint.at_end=false",
                                        f"checkpoint.on_error={policy}"], {})
        deadline = time.monotonic() + SECONDS
        while not os.path.exists(os.path.join(folder, "latest")) and time.monotonic() < deadline:
            time.sleep(0.002)
        fault.strike()
        ended = running.wait(SECONDS)
        fault.undo()
        code, said = (3, ended.err) if policy == "stop" else (0, ended.out)
        found = [] if ended.code == code else [f"exit code {ended.code}, expected {code}"]
        found += [f"no message holds: {part}" for part in (fault.text, "older checkpoints are untouched") if part not in said]
        faults.report(f"{kind.__name__}, {policy}", found + faults.goes_on(output), ended)
    finally:
        fault.end()


def bytes_in(text, pattern):
    number, unit = re.search(pattern, text).groups()
    return float(number) * {"KiB": 1 << 10, "MiB": 1 << 20}[unit]


def no_room(faults):
    """A node without room for snapshots (as a false /proc/meminfo has it): saves are synchronous, and the log says why."""
    log = open(os.path.join(faults.folder, "reference", "log.txt")).read()
    total = bytes_in(log, r"memory +([\d.]+) (KiB|MiB) per rank")
    snapshot = bytes_in(log, r"([\d.]+) (KiB|MiB)  snapshot")
    fake = os.path.join(faults.folder, "meminfo")
    job.write(fake, f"MemAvailable: {int(total - snapshot + 4 * snapshot / 0.9) // 2 // 1024} kB\n")
    unshare = ["unshare", "-m", "sh", "-c", f'mount --bind "{fake}" /proc/meminfo && exec "$@"', "sh"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("skipped: no room for snapshots (this user may not mount over /proc/meminfo)")
        return
    launcher, output = job.LAUNCHER, os.path.join(faults.folder, "no room")
    job.LAUNCHER = [*unshare, *launcher]
    ended = faults.run(output, ["checkpoint.at_end=false"], {})
    job.LAUNCHER = launcher
    found = [f"the log does not hold: {text}" for text in ("saves       synchronous: the snapshots", "saved ")
             if text not in ended.out]
    faults.report("no room for snapshots", found + ([] if ended.code == 0 else ["exit code"]), ended)


def main():
    seed = int(os.environ.get("SEED", "1"))
    print(f"SEED={seed}")
    with job.folder() as folder:
        job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        faults = Faults(folder)
        injected(faults, random.Random(seed))
        full_disks(faults, random.Random(seed + 1))
        gone(faults)
        for kind in (ReadOnly, Vanished):
            for policy in ("stop", "continue"):
                taken_away(faults, kind, policy)
        no_room(faults)
        print(f"{faults.failures} failures")
    sys.exit(1 if faults.failures else 0)


if __name__ == "__main__":
    main()
