"""A rank that is absent, stopped or in another operation is named, and the job ends with 4 within seconds; a late one is
waited for.

usage: watch.py PROGRAM LAUNCHER...     (the launcher up to and including the flag of the number of ranks)
"""
import re
import subprocess
import sys
import time

PROGRAM, LAUNCHER = sys.argv[1], sys.argv[2:]
PATIENCE = 1.5

failures = 0
for way, which, ranks in (("absent", 2, 4), ("absent", 0, 4), ("stopped", 3, 4), ("stopped", 0, 4), ("barrier", 1, 4),
                          ("late", 1, 4)):
    start = time.monotonic()
    ended = subprocess.run([*LAUNCHER, str(ranks), PROGRAM, way, str(which)], capture_output=True, text=True, timeout=100)
    seconds = time.monotonic() - start
    blamed = re.findall(r"did not arrive: rank (\d+) on", ended.stderr)
    faults = []
    if way == "late":
        if ended.returncode != 0 or "done" not in ended.stdout or "hang" in ended.stderr:
            faults.append(f"exit code {ended.returncode}")
    else:
        if ended.returncode != 4:
            faults.append(f"exit code {ended.returncode}, expected 4")
        if seconds > PATIENCE + 25:
            faults.append(f"took {seconds:.0f} s")
        if ended.stderr.count("hang: in step 30") != 1:
            faults.append(f"{ended.stderr.count('hang: in step')} reports")
        if way == "barrier" and f"rank {which} on" not in ended.stderr:
            faults.append("the rank in another operation is not shown")
        if way != "barrier" and blamed != [str(which)]:
            faults.append(f"blamed {blamed}, expected {which}")
        if "waits" not in ended.stderr or "all_reduce" not in ended.stderr:
            faults.append("what the others wait in is missing")
    print(f"{'FAIL' if faults else 'ok  '} rank {which} {way:8} exit code {ended.returncode}, {seconds:.1f} s", *faults,
          sep="\n     ", flush=True)
    if faults or "-v" in sys.argv:
        print(ended.stderr[-3000:])
    failures += bool(faults)
sys.exit(1 if failures else 0)
