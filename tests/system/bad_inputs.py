"""Bad decks, bad data, bad checkpoints and lost ranks: the exit code of the contract, one clear message, all ranks gone."""
import concurrent.futures
import os
import re
import signal
import struct
import sys
import time

import job

TEXT = ("It was the best of times, it was the worst of times.\n" * 400).encode()
TEXT_DECK = """
[model]
layers = 2
hidden = 16
heads = 4
sequence = 16
vocab = 257

[batch]
global = 8

[data]
source = "text"
paths = ["{name}"]

[eval]
every = 0

[device]
kind = "cpu"
threads = 1
"""
TOKENS = 'data.source="tokens"'


class Table:
    """Runs cases in one folder, prints each, and counts those that end in another way than expected."""

    def __init__(self, folder):
        self.folder, self.failures, self.n = folder, 0, 0
        self.pool, self.pending = concurrent.futures.ThreadPoolExecutor(4), []

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, name, ended, code, expected, faults=(), n_messages=1):
        faults = list(faults)
        said = ended.messages()
        if ended.code != code and code is not None:
            faults.append(f"exit code {ended.code}, expected {code}")
        if code is None and ended.code in (0, None):
            faults.append(f"exit code {ended.code}, expected a failure")
        for text in expected:
            if text not in ended.err + ended.out:
                faults.append(f"no message holds: {text}")
        if code not in (0, 75, None) and len(said) != n_messages:
            faults.append(f"{len(said)} messages, expected {n_messages}")
        self.failures += bool(faults)
        text = "; ".join(said)[:230]
        print(f"{'FAIL' if faults else 'ok  '} {name:44} {ended.code!s:>4} {ended.seconds:5.1f} s  {text}", *faults, sep="\n     ",
              flush=True)
        if faults:
            print(ended.out[-1500:], ended.err[-1500:], sep="\n")

    def start(self, arguments, ranks):
        """arguments[0] is the deck; every case has an output folder of its own unless the arguments name one."""
        self.n += 1
        if not any(str(a).startswith("run.output=") for a in arguments):
            arguments = [*arguments, f"run.output={self.path(f'run{self.n}')}"]

        def work():
            running = job.Job(ranks, ["train", *arguments], cwd=self.folder)
            ended = running.wait(60)
            behind = running.left_behind()
            return ended, [f"ranks left behind: {behind}"] if behind else []
        return self.pool.submit(work)

    def train(self, name, code, expected, arguments, ranks=2):
        ended, faults = self.start(arguments, ranks).result()
        self.check(name, ended, code, expected, faults)
        return ended

    def beside(self, name, code, expected, arguments, ranks=2):
        """The same beside others that do not depend on it: most of a failing job is waiting. finish() reports."""
        self.pending.append((name, code, expected, self.start(arguments, ranks)))

    def finish(self):
        for name, code, expected, future in self.pending:
            ended, faults = future.result()
            self.check(name, ended, code, expected, faults)
        self.pending = []


def decks(table):
    small = job.write(table.path("small.toml"), job.SMALL)

    def bad(name, expected, *overrides, ranks=2):
        table.beside(name, 2, expected, [small, "run.steps=2", *overrides], ranks=ranks)

    bad("unknown key", ["model.colour"], "model.colour=3")
    bad("misspelt key", ["model.hiden", "model.hidden"], "model.hiden=32")
    bad("unknown section", ["modle", "model"], "modle.hidden=32")
    bad("wrong type", ["model.layers", "integer"], 'model.layers="four"')
    bad("value out of limits", ["model.layers", "1 to"], "model.layers=0")
    bad("grid does not divide the ranks", ["parallel.tensor", "2"], "parallel.tensor=3")
    bad("grid needs more ranks", ["ranks"], "parallel.data=4")
    bad("grid does not divide the heads", ["heads", "parallel.tensor"], "parallel.tensor=2", "model.heads=1", "model.kv_heads=1",
        "model.head_dim=16")
    bad("too few layers", ["model.layers", "pipeline"], "parallel.pipeline=2", "parallel.virtual_stages=3", "batch.global=12")
    bad("context does not divide the sequence", ["model.sequence", "parallel.context"], "parallel.context=2", "model.sequence=18")
    bad("batch does not divide", ["batch.global"], "batch.global=7")
    bad("several problems, one message", ["model.hiden", "lr.maximum"], "model.hiden=32", "lr.maximum=1")
    table.beside("no such deck", 2, ["absent.toml"], [table.path("absent.toml")])
    table.beside("deck without syntax", 2, ["broken.toml:2"], [job.write(table.path("broken.toml"), "[model]\nlayers = = 2\n")])
    table.check("no deck", job.run(2, ["train"]), 2, ["deck"])
    table.check("unknown command", job.run(0, ["trian", small]), 2, ["trian", "train"])
    table.check("unknown option", job.run(0, ["plan", small, "--rnaks", "2"]), 2, ["rnaks"])
    table.check("plan without ranks", job.run(0, ["plan", small]), 2, ["--ranks"])

    lines = TEXT_DECK.format(name="good.txt")
    job.write(table.path("good.txt"), TEXT)
    for name, text in [("byte-order mark", b"\xef\xbb\xbf" + lines.encode()),
                       ("lines that end in CR LF", lines.replace("\n", "\r\n").encode())]:
        deck = job.write(table.path(f"{name}.toml"), text)
        table.beside(name + " in a deck", 0, ["finished"], [deck, "run.steps=1", "checkpoint.at_end=false"], ranks=1)
    table.finish()


def data(table):
    deck = job.write(table.path("data.toml"), TEXT_DECK.format(name="data.txt"))

    def bad(name, file, text, expected, *overrides):
        path = table.path(file)
        if text is not None:
            job.write(path, text)
        table.beside(name, 3, expected, [deck, "run.steps=2", f'data.paths=["{path}"]', *overrides])

    def tokens(ids):
        return struct.pack(f"<{len(ids)}H", *ids)

    table.beside("missing data file beside the deck", 3, [table.path("data.txt")], [deck, "run.steps=2"])
    bad("missing data file", "absent.txt", None, ["absent.txt"])
    bad("empty data file", "empty.txt", b"", ["empty.txt", "empty"])
    bad("data that are not text", "zeros.txt", b"text" * 500 + b"\0\0\0" + TEXT, ["zeros.txt", "text"])
    bad("data shorter than a sequence", "short.txt", b"short", ["6 tokens", "model.sequence"])
    os.mkdir(table.path("folder.txt"))
    bad("data path is a folder", "folder.txt", None, ["folder.txt"])
    few = [i % 250 for i in range(4000)]
    bad("truncated token file", "cut.bin", tokens(few) + b"\1", ["cut.bin"], TOKENS)
    many = [300 if i % 17 == 1 else i % 250 for i in range(4000)]
    bad("token beyond the vocabulary", "many.bin", tokens(many), ["many.bin", "300", "257"], TOKENS)
    masks = ["data.eod=3", "data.mask_eod=true"]
    bad("the same with masks", "many.bin", None, ["many.bin", "300", "257"], TOKENS, *masks)
    one = [300 if i == 2000 else i % 250 for i in range(4000)]
    bad("one such token, read by one rank", "one.bin", tokens(one), ["rank", "one.bin", "300"], TOKENS, "run.steps=40", *masks)
    table.finish()


def checkpoints(table):
    small, run = table.path("small.toml"), table.path("saved")
    arguments = [small, "run.steps=6", "checkpoint.every=2", "checkpoint.keep=0", f"run.output={run}"]
    table.train("a run that saves three checkpoints", 0, ["finished"], arguments)
    last = os.path.join(run, "checkpoints", "step_00000006.h5")

    table.beside("checkpoint of another model", 3, ["model.hidden", "24", "16", "another model"],
                [small, "run.steps=8", "model.hidden=24", f"run.resume={last}"])
    table.beside("checkpoint that does not exist", 3, ["absent.h5"], [small, "run.steps=8", "run.resume=absent.h5"])
    table.beside("checkpoint that is a text", 3, ["small.toml"], [small, "run.steps=8", f"run.resume={small}"])
    table.beside("checkpoint trained on other data", 3, ["data", "accept_change"],
                [small, "run.steps=8", "run.seed=5", f"run.resume={last}"])

    with open(last, "rb") as file:
        whole = file.read()
    for part in (0.9, 0.5, 0.01, 0):
        cut = job.write(table.path(f"cut{part}.h5"), whole[:int(part * len(whole))])
        table.beside(f"checkpoint cut to {part:.0%}", 3, [cut], [small, "run.steps=8", f"run.resume={cut}"])
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    job.write(table.path("flipped.h5"), bytes(flipped))
    table.beside("checkpoint with a changed bit", 3, ["flipped.h5"], [small, "run.steps=8", f"run.resume={table.path('flipped.h5')}"])
    table.finish()

    job.write(last, whole[:len(whole) // 2])
    arguments[1] = "run.steps=8"
    table.train("resume = auto passes over a cut checkpoint", 0, ["passed over", "step_00000006.h5", "step_00000004.h5: step 4"],
                arguments)


def folders(table):
    small = table.path("small.toml")
    regular = job.write(table.path("regular"), "a file, no folder\n")
    for below in ("run", "deep/er/run"):
        table.beside("output below a regular file", 3, ["run.output", "regular"],
                     [small, "run.steps=2", f"run.output={regular}/{below}"])
    table.finish()


def started(table, run, step, ranks, *overrides):
    """A job whose log has reached `step`."""
    arguments = ["train", table.path("small.toml"), "run.steps=200000", "log.every=10", f"run.output={run}", *overrides]
    running = job.Job(ranks, arguments, cwd=table.folder)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.process.poll() is None:
        try:
            if max(job.metrics(run), default=0) >= step:
                break
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.05)
    return running


def lost_ranks(table):
    run = table.path("killed")
    running = started(table, run, 20, 4, "checkpoint.every=5", "parallel.tensor=2", "parallel.pipeline=2")
    os.kill(running.ranks()[2], signal.SIGKILL)
    moment = time.monotonic()
    ended = running.wait(60)
    seconds = time.monotonic() - moment
    faults = [f"ended {seconds:.1f} s after the kill"] if seconds > 15 else []
    if running.left_behind():
        faults.append("ranks left behind")
    table.check("one rank killed", ended, None, [], faults)
    saved = saved_step(run)
    table.train("and resumed", 0, [f"step {saved},", "finished"],
                [table.path("small.toml"), f"run.steps={saved + 5}", f"run.output={run}", "checkpoint.every=5"], ranks=2)


def saved_step(run):
    with open(os.path.join(run, "checkpoints", "latest")) as file:
        return int(re.search(r"\d+", file.read()).group())


def signals(table):
    settings = ["lr.decay=100000", "precision.compute=fp64"]
    straight = None
    for name, ranks, which in (("SIGTERM", 4, 3), ("SIGUSR1", 2, 0), ("SIGTERM", 1, 0)):
        run = table.path(f"{name}{ranks}")
        running = started(table, run, 10, ranks, *settings)
        os.kill(running.ranks()[which], getattr(signal, name))
        ended = running.wait(60)
        behind = running.left_behind()
        stop = saved_step(run)
        faults = ["ranks left behind"] if behind else []
        table.check(f"{name} to rank {which} of {ranks}", ended, 75, ["stopped early after saving"], faults)
        again = table.train("  and resumed", 0, [f"step {stop},"],
                            [table.path("small.toml"), f"run.steps={stop + 5}", f"run.output={run}", "log.every=1", *settings], ranks=ranks)
        whole = table.path(f"{name}{ranks} straight")
        straight = table.train("  the same without a stop", 0, [],
                               [table.path("small.toml"), f"run.steps={stop + 5}", f"run.output={whole}", "log.every=1", *settings],
                               ranks=ranks)
        ours, theirs = job.metrics(run), job.metrics(whole)
        same = again.code == straight.code == 0 and all(
            ours[step][key] == theirs[step][key] for step in range(stop + 1, stop + 6) for key in ("loss", "grad_norm"))
        table.failures += not same
        print(f"{'ok  ' if same else 'FAIL'}   the curve after step {stop} is the same to the last digit")


def numerics(table):
    run = table.path("numerics")
    table.train("numbers that are not finite", 5, ["step", "not finite", "lr.max"],
                [table.path("small.toml"), "run.steps=50", "lr.max=1e30", "lr.warmup=1", f"run.output={run}"], ranks=4)


def wall_time(table):
    run = table.path("minutes")
    start = time.monotonic()
    running = job.Job(2, ["train", table.path("small.toml"), "run.steps=1000000", "log.every=1000", "run.max_minutes=0.05",
                          f"run.output={run}"], cwd=table.folder)
    ended = running.wait(60)
    faults = [f"took {ended.seconds:.1f} s for run.max_minutes of 3 s"] if time.monotonic() - start > 12 else []
    if saved_step(run) < 1:
        faults.append("nothing was saved")
    table.check("run.max_minutes", ended, 75, ["stopped early after saving"], faults)


def main():
    with job.folder() as folder:
        table = Table(folder)
        for group in (decks, data, checkpoints, folders, lost_ranks, signals, numerics, wall_time):
            print(f"--- {group.__name__}", flush=True)
            group(table)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
