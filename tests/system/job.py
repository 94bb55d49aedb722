"""Starts trireme for the system tests and looks at what it leaves: exit code, messages, processes, run folder.

Every script here is called as: SCRIPT.py [--all] PROGRAM LAUNCHER...  (the launcher up to the flag of the number of
ranks; --all: also what takes long).
"""
import json
import os
import subprocess
import sys
import tempfile
import time

ALL = sys.argv[1:2] == ["--all"]
PROGRAM, *LAUNCHER = sys.argv[2 if ALL else 1:]

# A model that every grid of the tests divides, on made-up tokens.
SMALL = """
[model]
layers = 4
hidden = 16
heads = 4
sequence = 16
vocab = 61
vocab_multiple = 4

[batch]
global = 12

[data]
source = "mock"

[eval]
every = 0

[log]
every = 1

[device]
kind = "cpu"
threads = 1
"""


class Ended:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def messages(self):
        """What the program itself said on stderr; the launcher adds remarks of its own."""
        return [line for line in self.err.splitlines() if line.startswith("trireme: ")]


class Job:
    """A job that is running. Its ranks are found by the run folder in their command line."""

    def __init__(self, ranks, arguments, cwd=None, env=None):
        launch = [*LAUNCHER, str(ranks)] if ranks > 0 else []
        self.start = time.monotonic()
        self.arguments = [str(a) for a in arguments]
        self.process = subprocess.Popen(
            [*launch, PROGRAM, *self.arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=env, start_new_session=True)

    def ranks(self):
        """Process ids of the ranks, in order of rank."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")[:-1]
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                if words[:1] != [PROGRAM] or words[1:] != self.arguments or fields[0] == "Z":
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    pairs = (entry.partition(b"=") for entry in file.read().split(b"\0"))
                    rank = {key: value for key, _, value in pairs}.get(b"OMPI_COMM_WORLD_RANK", b"0")
                found[int(rank)] = int(pid)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return [found[rank] for rank in sorted(found)]

    def wait(self, timeout=120):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            for pid in self.ranks():
                os.kill(pid, 9)
            out, err = self.process.communicate()
            return Ended(None, out, err, time.monotonic() - self.start)
        return Ended(self.process.returncode, out, err, time.monotonic() - self.start)

    def left_behind(self, seconds=5):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.ranks():
            time.sleep(0.05)
        return self.ranks()


def run(ranks, arguments, **options):
    """Runs to the end. ranks = 0: without a launcher."""
    return Job(ranks, arguments, **options).wait()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(text, bytes) else "w", newline=None if isinstance(text, bytes) else "") as file:
        file.write(text)
    return path


def metrics(folder):
    """The logged steps: {step: {name: text}}. Numbers stay as they are written, so that equal means equal bits."""
    steps = {}
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        for line in file:
            entry = json.loads(line, parse_float=str, parse_int=str)
            steps.setdefault(int(entry["step"]), {}).update(entry)
    return steps


def folder():
    return tempfile.TemporaryDirectory(prefix="trireme_")
