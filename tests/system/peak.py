"""Runs a program and writes the largest memory it held of its own, in bytes, to FOLDER/<rank>.

Its own: anonymous and shared memory. Pages of library files come and go as the kernel likes and are left out.
usage: peak.py FOLDER PROGRAM ARGUMENTS...
"""
import os
import re
import subprocess
import sys
import time

folder, command = sys.argv[1], sys.argv[2:]
process = subprocess.Popen(command)
peak = 0
while process.poll() is None:
    try:
        with open(f"/proc/{process.pid}/status") as status:
            sizes = re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", status.read(), re.MULTILINE)
    except OSError:  # it has just ended
        break
    peak = max(peak, 1024 * sum(map(int, sizes)))
    time.sleep(0.005)
with open(os.path.join(folder, os.environ.get("OMPI_COMM_WORLD_RANK", "0")), "w") as file:
    file.write(str(peak))
sys.exit(process.wait())
