"""Speed of checkpoints: saving and loading against plain parallel writes and reads of the same bytes by the same ranks, the
stall of an asynchronous save, reshard against a copy of the file, memory per rank, metadata of a 175B model.

usage: checkpoint.py BUILD_DIR [--folder F] [--ranks 4] [--rounds 2] [--layers 20] [--hidden 1024]   (4.3 GB of state)
F should be on the disk that is to be measured and needs room for four times the state.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

COPY = 4 << 20


def copy_part(source, target, part, parts):
    size = os.path.getsize(source)
    first, last = size * part // parts, size * (part + 1) // parts
    a, b = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT)
    for at in range(first, last, COPY):
        os.pwrite(b, os.pread(a, min(COPY, last - at), at), at)
    os.fsync(b)


def forget(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def parallel_copy(source, target, ranks):
    """As many processes as ranks, each a part of the file."""
    children = []
    for part in range(ranks):
        pid = os.fork()
        if pid == 0:
            copy_part(source, target, part, ranks)
            os._exit(0)
        children.append(pid)
    for pid in children:
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit("the copy failed")


def peak_of_ranks(command):
    """Runs it; the largest memory of its own (anonymous) that any rank held, in MiB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    program, peak = next(word for word in command if word.endswith("reshard")), 0
    while process.poll() is None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if not file.read().startswith(program.encode() + b"\0"):
                        continue
                with open(f"/proc/{pid}/status") as file:
                    for line in file:
                        if line.startswith("RssAnon:"):
                            peak = max(peak, int(line.split()[1]) // 1024)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        time.sleep(0.1)
    text = process.stdout.read()
    if process.returncode != 0:
        raise SystemExit(text)
    return peak, text


def training(launch, build, folder, layers, hidden, more):
    """Two steps, a save, a step beside it: seconds of the save, seconds that training waited, seconds of the last steps."""
    output = os.path.join(folder, "run")
    settings = ["data.source=mock", "device.kind=cpu", f"model.layers={layers}", f"model.hidden={hidden}", "model.heads=16",
                "model.vocab=50257", "precision.compute=bf16", "precision.gradients=bf16", "model.sequence=128",
                "batch.global=8", "parallel.tensor=2", "run.steps=4", "lr.warmup=0", "checkpoint.every=2", "log.every=1",
                "checkpoint.at_end=false", "eval.every=0", f"run.output={output}", *more]
    deck = os.path.join(folder, "deck.toml")
    open(deck, "w").close()
    done = subprocess.run([*launch, os.path.join(build, "trireme"), "train", deck, *settings], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    with open(os.path.join(output, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    shutil.rmtree(output)
    saves = [row for row in rows if row.get("event") in ("committed", "saved") and row["step"] == 2]
    return saves[0]["total_s"], saves[0]["stall_s"], [row["step_s"] for row in rows if "step_s" in row]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("build")
    words.add_argument("--folder")
    for name, value in (("ranks", 4), ("rounds", 2), ("layers", 20), ("hidden", 1024)):
        words.add_argument(f"--{name}", type=int, default=value)
    a = words.parse_args()
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        launch = ["mpirun", "--oversubscribe", "-n", str(a.ranks)]
        done = subprocess.run([*launch, os.path.join(a.build, "tests", "checkpoint_bench"), folder, str(a.rounds),
                               str(a.layers), str(a.hidden)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        r = json.loads(done.stdout.strip().splitlines()[-1])
        os.unlink(os.path.join(folder, "raw"))
        source = os.path.join(folder, "step_00000001.h5")
        copies, reshards, peak = [], [], 0
        for i in range(a.rounds):
            copy, target = os.path.join(folder, "copy"), os.path.join(folder, "resharded.h5")
            forget(source)
            copies.append(seconds(lambda: parallel_copy(source, copy, a.ranks)))
            forget(source)
            start = time.monotonic()
            now, text = peak_of_ranks([*launch, os.path.join(a.build, "tools", "reshard"), source, target, "--tensor", "8",
                                       "--no-read-back"])
            reshards.append(time.monotonic() - start)
            peak = max(peak, now)
            os.unlink(copy)
            os.unlink(target)
        total, stall, steps = training(launch, a.build, folder, a.layers, a.hidden, [])
        total_sync, _, steps_sync = training(launch, a.build, folder, a.layers, a.hidden, ["checkpoint.async=false"])
    gb = r["bytes"] / 1e9
    best = {key: min(r[key]) for key in ("raw_write", "save", "raw_read", "load")}
    print(f"{gb:.2f} GB of state, {a.ranks} ranks, the best of {a.rounds} rounds (all: {json.dumps(r)}, copies {copies}, "
          f"reshards {reshards})\n")
    print("| what | seconds | GB/s | against |\n|---|---|---|---|")

    def line(what, s, other):
        print(f"| {what} | {s:.2f} | {gb / s:.2f} | {other} |")
    line("plain parallel write, fsync", best["raw_write"], "")
    line("save", best["save"], f"{best['raw_write'] / best['save']:.0%} of plain")
    line("plain parallel read, cold", best["raw_read"], "")
    line("load, cold, checksums verified", best["load"], f"{best['raw_read'] / best['load']:.0%} of plain")
    line("copy to host memory", r["copy"], f"the first time {r['first_copy']:.2f} s")
    line("training: a synchronous save", total_sync, "")
    print(f"| training: an asynchronous save waited for | {stall:.2f} (of {total:.2f}) | | {stall / total_sync:.1%} of a "
          f"synchronous one; steps of {', '.join(f'{s:.1f}' for s in steps)} s (without a save beside them "
          f"{', '.join(f'{s:.1f}' for s in steps_sync)}) |")
    line("plain parallel copy, cold, fsync", min(copies), "")
    line("reshard to tensor 8, cold, input verified", min(reshards),
         f"{min(copies) / min(reshards):.0%} of the copy, {peak} MiB per rank")
    print(f"| metadata of a 175B model | {r['metadata_175b']:.2f} | | |")


if __name__ == "__main__":
    main()
