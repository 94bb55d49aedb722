"""Checks how jobs end: exit code, messages, time, and that no rank is left behind.

usage: endings.py PROGRAM LAUNCHER...     (the launcher up to and including the flag of the number of ranks)
"""
import os
import subprocess
import sys
import time

SECONDS = 20  # of the whole job; start-up on a busy machine takes most of it


def run(launcher, program, ranks, way, code):
    start = time.monotonic()
    command = [*launcher, str(ranks)] if ranks > 0 else []
    job = subprocess.run([*command, program, way, str(code)], capture_output=True, text=True, timeout=120)
    return job, time.monotonic() - start


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def pids_in(stdout):
    return [int(line.split()[1]) for line in stdout.splitlines() if line.startswith("pid ")]


def left_behind(pids):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(alive(pid) for pid in pids):
        time.sleep(0.1)
    return [pid for pid in pids if alive(pid)]


def faults(job, seconds, ranks, expected_code, expected_messages):
    pids = pids_in(job.stdout)
    if len(pids) != max(ranks, 1):
        yield f"{len(pids)} ranks started, expected {max(ranks, 1)}"
    messages = [line for line in job.stderr.splitlines() if line.startswith("trireme: ")]
    if expected_code is not None and job.returncode != expected_code:
        yield f"exit code {job.returncode}, expected {expected_code}"
    if expected_code is None and job.returncode == 0:
        yield "exit code 0, expected a failure"
    if len(messages) != len(expected_messages):
        yield f"{len(messages)} messages, expected {len(expected_messages)}: {messages}"
    for message, expected in zip(messages, expected_messages):
        if expected not in message:
            yield f"message '{message}' lacks '{expected}'"
    if "not reached" in job.stdout:
        yield "a rank came past a barrier that one rank never entered"
    if seconds > SECONDS:
        yield f"took {seconds:.1f} s, allowed are {SECONDS} s"
    behind = left_behind(pids)
    if behind:
        yield f"ranks left behind: {behind}"


def main():
    program, launcher = sys.argv[1], sys.argv[2:]
    cases = [("finish", 1, 0, 0, []), ("finish", 4, 0, 0, []), ("dropped", 4, 0, 0, [])]
    for code in (2, 3, 4, 5, 75):
        cases.append(("together", 4, code, code, ["trireme: a deck error that all ranks found"]))
        cases.append(("abort", 4, code, code, ["trireme: rank 3 on "]))
    cases += [
        ("together", 1, 2, 2, ["a deck error"]),
        ("abort", 1, 3, 3, ["rank 0 on "]),
        ("echo", 4, 3, 3, ["the cause"]),
        ("unreported", 4, 0, 1, ["rank 3 on "]),
        ("kill", 4, 0, None, []),
        ("finish", 0, 0, 0, []),  # 0 ranks: no launcher at all
        ("together", 0, 2, 2, ["a deck error"]),
        ("abort", 0, 3, 3, ["rank 0 on "]),
    ]
    failed = False
    for way, ranks, code, expected_code, messages in cases:
        job, seconds = run(launcher, program, ranks, way, code)
        found = list(faults(job, seconds, ranks, expected_code, messages))
        print(f"{way} {code}, {ranks} ranks: exit code {job.returncode}, {seconds:.1f} s", *found, sep="\n  ", flush=True)
        if found:
            print(job.stdout[-2000:], job.stderr[-2000:], sep="\n")
        failed = failed or bool(found)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
