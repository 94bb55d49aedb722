"""A user plans: makes a table of this machine, predicts a step of a run on it, searches layouts for many GPUs."""
import json
import os
import sys

import job

MEASURE = os.path.join(os.path.dirname(job.PROGRAM), "tools", "measure")
GPT = """
[model]
layers = 24
hidden = 2048
heads = 16
sequence = 2048

[precision]
compute = "bf16"

[batch]
global = 128

[data]
source = "mock"

[eval]
every = 0

[device]
kind = "cuda"
"""


def check(name, holds, *shown):
    print(f"{'ok  ' if holds else 'FAIL'} {name}", flush=True)
    if not holds:
        print(*shown, sep="\n")
    return not holds


def measured(folder):
    """One rank measures the CPU, two the messages between them; the plan of a CPU deck then has a time."""
    program, job.PROGRAM = job.PROGRAM, MEASURE
    one = job.run(1, ["--quick", "--output", "one.toml", "small.toml"], cwd=folder)
    two = job.run(2, ["--quick", "--wires-only", "--base", "one.toml", "--output", "two.toml"], cwd=folder)
    none = job.run(0, ["--quick"], cwd=folder)
    job.PROGRAM = program
    failures = check("one rank measures", one.code == 0 and "[gemm]" in one.out + open(f"{folder}/one.toml").read(), one.err)
    failures += check("two ranks measure messages", two.code == 0 and "all_reduce = [" in open(f"{folder}/two.toml").read(), two.err)
    failures += check("without --output it says so", none.code == 2 and "--output FILE" in none.err, none.err)
    plan = job.run(0, ["plan", "small.toml", "--ranks", "2", "--machine", "two.toml", "parallel.tensor=2"], cwd=folder)
    failures += check("a CPU deck is predicted", plan.code == 0 and "predicted by the table of" in plan.out, plan.out, plan.err)
    search = job.run(0, ["plan", "small.toml", "--ranks", "2", "--machine", "two.toml", "--search"], cwd=folder)
    return failures + check("layouts of CPUs are searched", search.code == 0 and "Overrides of the first" in search.out,
                            search.out, search.err)


def searched(folder):
    def plan(*arguments):
        return job.run(0, ["plan", "gpt.toml", *arguments], cwd=folder)

    text = plan("--ranks", "64", "--search", "--best", "3")
    rows = [line.split() for line in text.out.splitlines() if line[:5].strip().isdigit() and len(line.split()) == 14]
    failures = check("three layouts are listed", text.code == 0 and len(rows) == 3, text.out, text.err)
    found = plan("--ranks", "64", "--search", "--best", "1000", "--json")
    layouts = json.loads(found.out)["layouts"]
    steps = [layout["step_s"] for layout in layouts]
    failures += check("as JSON, fastest first", found.code == 0 and steps == sorted(steps) and len(steps) > 10)
    failures += check("tp stays in the node", all(layout["tensor"] <= 8 for layout in layouts))
    best = layouts[0]
    again = plan("--ranks", "64", *best["overrides"])
    failures += check("the overrides of the first give its prediction",
                      f"step {1000 * best['step_s']:.1f} ms" in again.out, again.out, again.err)
    wide = json.loads(plan("--ranks", "64", "--search", "--best", "1000", "--json", "--tensor-across-nodes").out)
    failures += check("tp leaves the node when asked", any(layout["tensor"] > 8 for layout in wide["layouts"]))
    fixed = json.loads(plan("--ranks", "64", "--search", "--json", "parallel.pipeline=4").out)
    failures += check("what is stated stays", {layout["pipeline"] for layout in fixed["layouts"]} == {4})
    full = plan("--ranks", "1", "--search", "--machine", "a100", "model.layers=200", "model.hidden=8192")
    failures += check("nothing fits: exit 1 and why", full.code == 1 and "out of memory on" in full.out, full.out)
    for arguments, words in [(["--machine", "h2oo"], "known: a100, h100, h200"), (["--machine", "no/file.toml"], "cannot read"),
                             (["--machine", "gpt.toml"], "unknown section")]:
        refused = plan("--ranks", "2", "--search", *arguments)
        failures += check(f"refused: {arguments[1]}", refused.code == 2 and words in refused.err, refused.err)
    return failures


def main():
    with job.folder() as folder:
        job.write(os.path.join(folder, "small.toml"), job.SMALL)
        job.write(os.path.join(folder, "gpt.toml"), GPT)
        failures = measured(folder) + searched(folder)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
