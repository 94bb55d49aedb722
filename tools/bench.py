#!/usr/bin/env python3
"""Runs decks with trireme and prints one table: throughput, step time and its phases, FLOP rates, planned and used memory.

usage: bench.py TRIREME [--ranks N] [--steps K] [--set section.key=value ...] DECK...
Medians over the steps after the second (the first times the matrix products). gemm %: causal TFLOP/s of the whole step over
what its matrix products alone reached, under load, when their algorithms were chosen (absent in deterministic runs). Phases
in ms: forward, backward, waiting for other ranks (pipeline messages, gradients), optimizer. Decks for GPUs are skipped
without one.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

COLUMNS = "{:<24} {:>10} {:>10} {:>8} {:>8} {:>6} {:>7} {:>9} {:>9} {:>28} {:>8}"
PHASES = ["forward_s", "backward_s", "waiting_s", "optimizer_s"]


def has_gpu():
    return shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0


class MemoryWatch(threading.Thread):
    """Largest memory in use on GPU 0 while a run goes on, in GiB; None without a GPU."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.stop = None, False

    def run(self):
        while not self.stop and has_gpu():
            query = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
            text = subprocess.run(query, capture_output=True, text=True).stdout.strip()
            if text.isdigit():
                self.peak = max(self.peak or 0, int(text) / 1024)
            time.sleep(0.3)


def run(program, deck, ranks, settings, folder):
    command = [program, "train", deck, f"run.output={folder}", "run.resume=never", "log.every=1", *settings]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", *command]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    watch = MemoryWatch()
    watch.start()
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    watch.stop = True
    if result.returncode != 0:
        return None, (result.stderr.strip().splitlines() or ["no message"])[-1], None
    with open(f"{folder}/metrics.jsonl") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if "step_s" in row][2:], None, watch.peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("decks", nargs="+", metavar="DECK")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="section.key=value")
    a = parser.parse_args()
    settings = a.set + ([f"run.steps={a.steps}"] if a.steps else [])
    print(COLUMNS.format("deck", "tok/s", "step ms", "causal", "full", "mfu %", "gemm %", "plan GiB", "used GiB",
                         "fwd/bwd/wait/opt ms", "loss"))
    failed = False
    for deck in a.decks:
        name = os.path.basename(deck).removesuffix(".toml")
        with open(deck) as file:
            if re.search(r'^kind = "cuda"', file.read(), re.MULTILINE) and not has_gpu():
                print(f"{name:<24} skipped: no GPU")
                continue
        with tempfile.TemporaryDirectory() as folder:
            rows, problem, used = run(a.trireme, deck, a.ranks, settings, folder)
        if problem or not rows:
            failed = True
            print(f"{name:<24} failed: {problem or 'fewer than three steps'}")
            continue
        middle = lambda key: statistics.median(row[key] for row in rows if row[key] is not None)
        mfu = f"{100 * middle('mfu'):.1f}" if rows[0]["mfu"] is not None else "-"
        products = rows[-1].get("matmul_tflops")
        share = f"{100 * middle('tflops_causal') / products:.1f}" if products else "-"
        print(COLUMNS.format(name, f"{middle('tokens_per_s'):.0f}", f"{1000 * middle('step_s'):.1f}",
                             f"{middle('tflops_causal'):.1f}", f"{middle('tflops_full'):.1f}", mfu, share,
                             f"{rows[0]['memory_gib']:.2f}", f"{used:.2f}" if used else "-",
                             "/".join(f"{1000 * middle(phase):.1f}" for phase in PHASES), f"{rows[-1]['loss']:.4f}"),
              flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
