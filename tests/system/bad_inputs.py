"""Bad decks, bad data and bad checkpoints: the exit code of the contract, one clear message, all ranks gone."""
import os
import struct
import sys

import job
from table import Table

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
    bad("grid does not divide the heads", ["heads", "parallel.tensor"], "parallel.tensor=2", "model.heads=1",
        "model.kv_heads=1", "model.head_dim=16")
    bad("too few layers", ["model.layers", "pipeline"], "parallel.pipeline=2", "parallel.virtual_stages=3")
    bad("context does not divide the sequence", ["model.sequence", "parallel.context"], "parallel.context=2",
        "model.sequence=18")
    bad("sides that fp8 cannot have", ["fp8", "weight", "multiples of 16"], 'precision.compute="fp8"', "model.ffn=100")
    bad("batch does not divide", ["batch.global"], "batch.global=7")
    bad("several problems, one message", ["model.hiden", "lr.maximum"], "model.hiden=32", "lr.maximum=1")
    table.beside("no such deck", 2, ["absent.toml"], [table.path("absent.toml")])
    broken = job.write(table.path("broken.toml"), "[model]\nlayers = = 2\n")
    table.beside("deck without syntax", 2, ["broken.toml:2"], [broken])
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
    bad("one such token, read by one rank", "one.bin", tokens(one), ["rank", "one.bin", "300"], TOKENS, "run.steps=40",
        *masks)
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
    damaged = job.write(table.path("flipped.h5"), bytes(flipped))
    table.beside("checkpoint with a changed bit", 3, [damaged], [small, "run.steps=8", f"run.resume={damaged}"])
    table.finish()

    job.write(last, whole[:len(whole) // 2])
    arguments[1] = "run.steps=8"
    table.train("resume = auto passes over a cut checkpoint", 0,
                ["passed over", "step_00000006.h5", "step_00000004.h5: step 4"], arguments)


def folders(table):
    small = table.path("small.toml")
    regular = job.write(table.path("regular"), "a file, no folder\n")
    for below in ("run", "deep/er/run"):
        table.beside("output below a regular file", 3, ["run.output", "regular"],
                     [small, "run.steps=2", f"run.output={regular}/{below}"])
    table.finish()


def main():
    with job.folder() as folder:
        table = Table(folder)
        for group in (decks, data, checkpoints, folders):
            print(f"--- {group.__name__}", flush=True)
            group(table)
        print(f"{table.failures} failures")
    sys.exit(1 if table.failures else 0)


if __name__ == "__main__":
    main()
