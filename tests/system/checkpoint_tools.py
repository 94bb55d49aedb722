"""inspect and reshard on checkpoints of a real run: what they say, that nothing is lost, that training does not notice."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

import job

TOOLS = os.path.join(os.path.dirname(job.PROGRAM), "tools")
COMMON = ["model.hidden=32", "model.ffn=128", "precision.compute=bf16", "lr.decay=8", "run.steps=8",
          "checkpoint.every=4", "checkpoint.keep=0", "parallel.bucket_mb=0.02"]
GRID = ["parallel.tensor=2", "parallel.data=2"]
FIVE_LINES = """
import h5py
with h5py.File({path!r}) as f:
    print(f.attrs["step"], dict(f["param"]).keys())
    q = f["param/block.attn.q.weight"][3]          # layer 3, [out, in]
print(q.shape, float((q.astype("f8") ** 2).sum() ** 0.5))
"""


class Lab:
    def __init__(self, folder):
        self.folder, self.failures = folder, 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, name, *words, ranks=0, cwd=None):
        launch = [*job.LAUNCHER, str(ranks)] if ranks else []
        return subprocess.run([*launch, os.path.join(TOOLS, name), *words], capture_output=True, text=True,
                              cwd=cwd or self.folder)

    def check(self, name, good, *more):
        self.failures += not good
        print("ok  " if good else "FAIL", name, *([] if good else more), flush=True)

    def reshard(self, name, words, ranks):
        done = self.tool("reshard", *words, ranks=ranks)
        self.check(f"reshard on {ranks} ranks: {name}", done.returncode == 0, done.stdout + done.stderr)

    def equal(self, name, a, b):
        done = self.tool("inspect", "--diff", a, b)
        self.check(name, done.returncode == 0, done.stdout + done.stderr)

    def train(self, output, more, expected=0):
        arguments = ["train", self.path("deck.toml"), *COMMON, *GRID, f"run.output={self.path(output)}", *more]
        ended = job.run(4, arguments, cwd=self.folder)
        self.check(f"train {output}: exit code {expected}", ended.code == expected, ended.out[-2000:], ended.err[-2000:])
        return ended


def sha(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def inspects(lab, first, second):
    done = lab.tool("inspect", "list", first, "--json")
    listed = json.loads(done.stdout)
    arrays = {array["path"]: array for array in listed["arrays"]}
    down = arrays["/param/block.mlp.down.weight"]
    lab.check("list: shapes, dtypes, blocks, names", down["shape"] == [4, 32, 128] and down["dtype"] == "bf16"
              and down["blocks"] == [1, 32, 64] and down["hf_names"].split("\n")[3].endswith("h.3.mlp.c_proj.weight"), down)
    lab.check("list: attributes", listed["attributes"]["step"] == "4" and "date" in listed["attributes"]
              and "[model]" in listed["attributes"]["deck"], listed["attributes"].keys())
    lab.check("verify: a good file", lab.tool("inspect", "verify", first).returncode == 0)
    done = lab.tool("inspect", "--diff", first, second, "--json")
    differences = json.loads(done.stdout)
    gain = differences["/param/head.norm.gain"]
    lab.check("diff: other steps differ", done.returncode == 1 and differences["/master/block.attn.q.weight"]["norm"] > 0
              and abs(gain["norm_a"] - 32 ** 0.5) < 0.1, differences)
    stats = json.loads(lab.tool("inspect", "stats", first, "/param/head.norm.gain", "--json").stdout)
    values = json.loads(lab.tool("inspect", "print", first, "param/head.norm.gain", "--json").stdout)["values"]
    mean = sum(values) / len(values)
    lab.check("stats and print agree", abs(stats["/param/head.norm.gain"]["mean"] - mean) < 1e-12 and len(values) == 32)
    for words in (["print", first, "param/none"], ["print", first, "param/head.norm.gain", "32"], ["nothing", first],
                  ["diff", first]):
        done = lab.tool("inspect", *words)
        lab.check(f"usage: {words[0]} {words[-1][-20:]}", done.returncode == 2 and done.stderr.startswith("inspect: "))


def change_a_byte(lab, path):
    """Of the data of /adam_m/block.mlp.up.weight. Where it is in the file."""
    values = json.loads(lab.tool("inspect", "print", path, "adam_m/block.mlp.up.weight", "--json", "--count",
                                 "2").stdout)["values"]
    with open(path, "r+b") as file:
        data = file.read()
        at = data.find(struct.pack("<2f", *values))
        file.seek(at)
        file.write(bytes([data[at] ^ 0x55]))
    return at


def damage(lab, first):
    """A changed byte in an array's data: named by verify, refused by reshard."""
    damaged = lab.path("damaged.h5")
    shutil.copy(first, damaged)
    at = change_a_byte(lab, damaged)
    done = lab.tool("inspect", "verify", damaged)
    lab.check("verify: the damaged array is named", at > 0 and done.returncode == 3
              and "DAMAGED  /adam_m/block.mlp.up.weight" in done.stdout, done.stdout, done.stderr)
    done = lab.tool("reshard", damaged, lab.path("from_damaged.h5"), ranks=2)
    left = [name for name in os.listdir(lab.folder) if name.startswith("from_damaged")]
    lab.check("reshard: damage is refused, nothing stays", done.returncode == 3 and "is damaged" in done.stderr and not left,
              done.stdout, done.stderr, left)


def reshards(lab, first):
    before = sha(first)
    lab.reshard("tp4 dp1, 3 files", [first, "a.h5", "--tensor", "4", "--data", "1", "--files", "3", "--memory", "0.01"], 3)
    lab.equal("  the same values", first, "a.h5")
    lab.reshard("one file again", ["a.h5", "b.h5", "--tensor", "1", "--files", "1"], 1)
    lab.equal("  the same values", first, "b.h5")
    lab.reshard("masters to remainders", [first, "c.h5", "precision.master=remainder"], 2)
    lab.reshard("remainders to masters", ["c.h5", "d.h5", "precision.master=fp32"], 1)
    done = json.loads(lab.tool("inspect", "diff", first, "d.h5", "--json").stdout)
    lab.check("  the masters bit for bit", all(d.get("n_different") == 0 for path, d in done.items()
                                               if not path.startswith("/param/")), done)
    lab.reshard("fp32", [first, "e.h5", "--dtype", "fp32"], 2)
    lab.reshard("fp32 to bf16", ["e.h5", "f.h5", "--dtype", "bf16"], 2)
    lab.equal("  the same values", first, "f.h5")
    lab.reshard("weights for release, other padding", [first, "w.h5", "--weights-only", "model.vocab_multiple=7"], 2)
    listed = json.loads(lab.tool("inspect", "list", "w.h5", "--json").stdout)
    shapes = {array["path"]: array["shape"] for array in listed["arrays"]}
    lab.check("  63 rows, no optimizer state", shapes["/param/embedding.token.weight"] == [63, 32]
              and all(path.startswith("/param/") for path in shapes), shapes)
    done = lab.tool("reshard", first, "b.h5", ranks=2)
    lab.check("an existing file is not overwritten", done.returncode == 2 and "exists" in done.stderr, done.stderr)
    done = lab.tool("reshard", "w.h5", "g.h5", ranks=2)
    lab.check("missing optimizer state is told", done.returncode == 3 and "--weights-only" in done.stderr, done.stderr)
    lab.check("the input is as it was", sha(first) == before)


def trainings(lab, straight):
    """Steps 5 to 8 from files that went through reshard."""
    names = ("loss", "grad_norm")
    for name in ("a", "b", "f"):
        run = f"from {name}"
        lab.train(run, [f"run.resume={lab.path(name + '.h5')}", "checkpoint.every=0", "checkpoint.at_end=false"])
        ours = job.metrics(lab.path(run))
        lab.check(f"  the curve from {name}.h5 is that of the straight run",
                  all(ours[s][n] == straight[s][n] for s in range(5, 9) for n in names))
    ended = lab.train("from w", [f"run.resume={lab.path('w.h5')}", "model.vocab_multiple=7"], 3)
    lab.check("  weights alone are refused with what to do", "run.weights_only = true" in ended.err, ended.err)
    lab.train("fine-tune", [f"run.resume={lab.path('w.h5')}", "run.weights_only=true", "run.steps=1"])
    lab.train("other masters", [f"run.resume={lab.path('checkpoints_of/step_00000004.h5')}", "precision.master=remainder",
                                "precision.moments=bf16", "model.vocab_multiple=8", "checkpoint.every=0"])
    ours = job.metrics(lab.path("other masters"))
    worst = max(abs(float(ours[s]["loss"]) - float(straight[s]["loss"])) for s in range(5, 9))
    lab.check("  remainders, bf16 moments and other padding: the curve to 1e-2", worst < 1e-2, worst)


def passed_over(lab, run):
    """The newest checkpoint has a damaged array: it is told, and the one before is used."""
    shutil.copytree(lab.path(run), lab.path("worn"))
    change_a_byte(lab, lab.path("worn/checkpoints/step_00000008.h5"))
    arguments = ["train", lab.path("deck.toml"), *COMMON, *GRID, f"run.output={lab.path('worn')}"]
    ended = job.run(4, arguments, cwd=lab.folder)
    lab.check("a damaged newest checkpoint is passed over", ended.code == 0 and "passed over" in ended.out
              and "is damaged" in ended.out and "step 4," in ended.out, ended.out[-2000:], ended.err)
    for name in os.listdir(lab.path("worn/checkpoints")):
        if name.endswith(".h5"):
            change_a_byte(lab, lab.path(f"worn/checkpoints/{name}"))
    ended = job.run(4, [*arguments, "run.steps=9"], cwd=lab.folder)
    lab.check("when all are damaged the run refuses to start anew", ended.code == 3 and "none of the checkpoints" in ended.err,
              ended.out[-2000:], ended.err)


def five_lines(lab):
    python = next((p for p in (sys.executable, "/usr/bin/python3")
                   if subprocess.run([p, "-c", "import h5py"], capture_output=True).returncode == 0), None)
    if python is None:
        print("skipped: no Python has h5py")
        return
    norms = []
    for name in ("a.h5", "b.h5"):  # three files behind a master, and one
        done = subprocess.run([python, "-c", FIVE_LINES.format(path=lab.path(name))], capture_output=True, text=True, cwd="/")
        norms.append(done.stdout)
        lab.check(f"five lines of h5py read {name}", done.returncode == 0 and "(32, 32)" in done.stdout, done.stdout,
                  done.stderr)
    lab.check("  and find the same weight", norms[0] == norms[1] and not norms[0].endswith(" 0.0\n"), norms)


def main():
    with job.folder() as folder:
        job.write(os.path.join(folder, "deck.toml"), job.SMALL)
        lab = Lab(folder)
        lab.train("straight", [])
        straight = job.metrics(lab.path("straight"))
        shutil.copytree(lab.path("straight/checkpoints"), lab.path("checkpoints_of"))
        first, second = (lab.path(f"checkpoints_of/step_0000000{step}.h5") for step in (4, 8))
        inspects(lab, first, second)
        damage(lab, first)
        reshards(lab, first)
        trainings(lab, straight)
        passed_over(lab, "straight")
        five_lines(lab)
        print(f"{lab.failures} failures")
    sys.exit(1 if lab.failures else 0)


if __name__ == "__main__":
    main()
