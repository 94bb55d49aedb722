#!/usr/bin/env python3
"""Prints a scaling table of runs that differ in the number of ranks: throughput, per rank, and efficiency.

usage: scaling.py weak|strong RUN_FOLDER...      medians over the logged steps after the second
"""
import json
import os
import re
import statistics
import sys


def ranks_of(folder):
    with open(os.path.join(folder, "log.txt")) as file:
        found = re.search(r"^grid +(\d+) rank", file.read(), re.MULTILINE)
    return int(found.group(1))


def rates_of(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    steps = [row for row in rows if "step_s" in row][2:]
    return (statistics.median(row["tokens_per_s"] for row in steps), statistics.median(row["step_s"] for row in steps),
            statistics.median(row["tflops_causal"] for row in steps))


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("weak", "strong"):
        sys.exit(__doc__)
    rows, lost = [], []
    for folder in sys.argv[2:]:
        try:
            rows.append((ranks_of(folder), *rates_of(folder)))
        except (OSError, AttributeError, statistics.StatisticsError) as error:
            lost.append(f"{folder}: no measurement ({error or 'too few steps'}); see its log.txt")
    print(f"{'ranks':>6} {'tok/s':>12} {'tok/s/rank':>11} {'step s':>8} {'TFLOP/s/rank':>13} {'efficiency':>10}")
    for ranks, rate, step, flops in sorted(rows):
        first_ranks, first_rate = sorted(rows)[0][:2]
        # Weak and strong alike: throughput per rank against that of the smallest run.
        print(f"{ranks:6} {rate:12.0f} {rate / ranks:11.1f} {step:8.3f} {flops:13.2f} {rate / ranks / (first_rate / first_ranks):10.1%}")
    print(*lost, sep="\n", end="\n" if lost else "")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
