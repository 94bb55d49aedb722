"""Runs a program and writes the largest memory it held, in bytes, to FOLDER/<rank>.

usage: peak.py FOLDER PROGRAM ARGUMENTS...
"""
import os
import sys

folder, program = sys.argv[1], sys.argv[2:]
pid = os.spawnvp(os.P_NOWAIT, program[0], program)
_, status, usage = os.wait4(pid, 0)
with open(os.path.join(folder, os.environ.get("OMPI_COMM_WORLD_RANK", "0")), "w") as file:
    file.write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(status))
