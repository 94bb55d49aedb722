"""Traces: the file is what Perfetto reads, every rank is in it on one clock, spans are nested, a collective runs at the same time
on all its ranks, and what was asked for is there: steps, phases, micro-batches, operations with their axis and size, saves.
"""
import json
import os
import sys
import time

import job
from table import Table


def load(path):
    with open(path) as file:
        return json.load(file)["traceEvents"]


def nesting_faults(events):
    """Spans of one track either contain each other or are apart."""
    faults, tracks = [], {}
    for e in (e for e in events if e["ph"] == "X"):
        tracks.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e["name"]))
    for track, spans in tracks.items():
        stack = []
        for begin, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1][1] <= begin:
                stack.pop()
            if stack and end > stack[-1][1] + 1:  # of nanoseconds that were written as microseconds
                faults.append(f"track {track}: {name} outlasts {stack[-1][2]}")
            stack.append((begin, end, name))
    return faults


def pairing_faults(events):
    begun = {}
    for e in events:
        if e["ph"] == "b":
            begun[e["id"]] = e["ts"]
        if e["ph"] == "e" and not begun.pop(e["id"], e["ts"] + 1) <= e["ts"]:
            return [f"background work {e['id']} ends before it begins"]
    return [f"{len(begun)} pieces of background work never end"] if begun else []


def collectives(events):
    """{(communicator, number): {rank: event}} of operations that no rank can leave before all have come."""
    met, ends = {}, {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    whole = [e for e in events if e["ph"] == "X"] + [{**e, "dur": ends[e["id"]] - e["ts"]} for e in events if e["ph"] == "b"]
    for e in whole:
        if e["name"].split(" ")[0] in ("all_reduce", "all_gather", "reduce_scatter", "barrier", "agreement"):
            met.setdefault((e["args"]["communicator"], e["args"]["number"], e["cat"]), {})[e["pid"]] = e
    return met


def overlap_faults(events):
    faults, whole = [], 0
    for ranks in collectives(events).values():
        name, args = next(iter(ranks.values()))["name"], next(iter(ranks.values()))["args"]
        if len(ranks) != args["ranks"]:
            faults.append(f"{name} number {args['number']} is on {len(ranks)} of {args['ranks']} ranks")
            continue
        whole += 1
        if len({(e["name"], e["args"]["bytes"]) for e in ranks.values()}) != 1:
            faults.append(f"{name} number {args['number']}: names or sizes differ")
        last_begin, first_end = max(e["ts"] for e in ranks.values()), min(e["ts"] + e["dur"] for e in ranks.values())
        if last_begin > first_end + 0.002:
            faults.append(f"{name} number {args['number']}: some rank ends {last_begin - first_end:.3f} us before another begins")
    return faults[:3] + ([] if whole > 10 else [f"only {whole} collectives"])


def content_faults(events, ranks, steps, micro_batches, axes):
    faults = []
    for rank in range(ranks):
        names = [e["name"] for e in events if e["pid"] == rank and e["ph"] in ("X", "b")]
        wanted = [f"step {step}" for step in steps] + ["read", "upload", "optimizer", "reduce gradients"]
        wanted += [f"{kind} {m}" for kind in ("forward", "backward") for m in range(micro_batches)]
        faults += [f"rank {rank} has no span {name}" for name in wanted if name not in names]
        if [name for name in names if name.startswith("step ")] != [f"step {step}" for step in steps]:
            faults.append(f"rank {rank} traced {[n for n in names if n.startswith('step ')]}, expected {steps}")
        shown = {e["args"]["axis"] for e in events if e["pid"] == rank and "axis" in e.get("args", {})}
        faults += [f"rank {rank} shows nothing on {axis}" for axis in axes if not any(axis in name for name in shown)]
    named = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return faults + ([] if named == set(range(ranks)) else [f"ranks {sorted(named)} have names"])


def check_trace(table, name, ended, path, ranks, steps, micro_batches, axes, saves=False, said="trace in"):
    faults = [] if ended.code == 0 else [ended.err[-1000:]]
    try:
        events = load(path)
        faults += nesting_faults(events) + pairing_faults(events) + overlap_faults(events)
        faults += content_faults(events, ranks, steps, micro_batches, axes)
        if saves and not {"save", "write a checkpoint"} & {e["name"] for e in events}:
            faults.append("no save is shown")
    except (OSError, ValueError, KeyError) as error:
        faults.append(f"{path}: {error!r}")
    table.check(name, ended, 0, [said], faults)


def flag(table, deck):
    for grid, ranks, micro, axes in ((["parallel.tensor=2", "parallel.pipeline=2"], 4, 12, ["tp", "pp", "all ranks"]),
                                     (["parallel.data=2", "parallel.context=2"], 4, 6, ["cp", "dp", "world"]), ([], 1, 12, [])):
        run = table.path(f"flag{len(grid)}{ranks}" + "".join(grid)[:16])
        ended = job.Job(ranks, ["train", deck, "--trace", "run.steps=8", "checkpoint.every=4", *grid,
                                f"run.output={run}"]).wait(120)
        path = os.path.join(run, "trace_00000003.json")
        if ranks == 1:
            events = load(path)
            faults = nesting_faults(events) + content_faults(events, 1, [3, 4, 5], micro, axes)
            table.check("--trace on one rank", ended, 0, ["trace in"], faults)
        else:
            check_trace(table, f"--trace on {' '.join(grid)}", ended, path, ranks, [3, 4, 5], micro, axes, True)


def short_run(table, deck):
    run = table.path("short")
    ended = job.Job(2, ["train", deck, "--trace", "run.steps=2", f"run.output={run}"]).wait(120)
    check_trace(table, "--trace of a run of two steps", ended, os.path.join(run, "trace_00000001.json"), 2, [1, 2], 6,
                ["all ranks"])


def losses(run):
    return {step: row["loss"] for step, row in job.metrics(run).items() if "loss" in row}


def until(running, holds):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None and not holds():
        time.sleep(0.02)


def trigger(table, deck):
    """The file `profile`: a trace of the next steps, and the curve stays what it is."""
    run, straight = table.path("trigger"), table.path("straight")
    settings = ["train", deck, "precision.compute=fp64", "log.trace_steps=2", "lr.decay=1000"]

    def traces():
        return [name for name in os.listdir(run) if name.startswith("trace_") and name.endswith(".json")]

    running = job.Job(2, [*settings, "run.steps=1000000", f"run.output={run}"])
    until(running, lambda: os.path.exists(os.path.join(run, "metrics.jsonl")))
    job.write(os.path.join(run, "profile"), "")
    until(running, traces)
    job.write(os.path.join(run, "stop"), "")
    ended = running.wait(60)
    found = traces()
    faults = [] if len(found) == 1 else [f"traces: {found}"]
    faults += ["the file is still there"] if os.path.exists(os.path.join(run, "profile")) else []
    undisturbed = job.run(2, [*settings, f"run.steps={max(losses(run))}", f"run.output={straight}"])
    faults += [] if undisturbed.code == 0 and losses(run) == losses(straight) else ["tracing changed the curve"]
    table.check("the file `profile`", ended, 75, ["asks for a trace", "trace in"], faults)
    if found:
        first = int(found[0][6:14])
        check_trace(table, "  its trace", undisturbed, os.path.join(run, found[0]), 2, [first, first + 1], 6, ["all ranks"],
                    said="finished")


def main():
    with job.folder() as folder:
        table = Table(folder)
        deck = job.write(table.path("small.toml"), job.SMALL)
        for group in (flag, short_run, trigger):
            group(table, deck)
        ended = job.run(0, ["plan", deck, "--ranks", "2", "--trace"])
        table.check("--trace of another command", ended, 2, ["--trace belongs to trireme train"])
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
