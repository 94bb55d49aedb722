#!/usr/bin/env python3
"""preprocess.py PREPROCESS INSPECT DATA_FOLDER   Text in every form to token files, and what is said about text that is none."""
import gzip
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PREPROCESS, INSPECT, DATA = sys.argv[1], sys.argv[2], Path(sys.argv[3])
GPT2 = str(DATA / "tokenizers/gpt2")


def run(*words, code=0, data=None, program=PREPROCESS):
    done = subprocess.run([program, *map(str, words)], input=data, capture_output=True)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, f"{words}: exit {done.returncode}, expected {code}\n{said}"
    return said


def read(prefix):
    """The documents of a pair of files, by the layout that Megatron documents."""
    idx, bin_ = Path(f"{prefix}.idx").read_bytes(), Path(f"{prefix}.bin").read_bytes()
    assert idx[:9] == b"MMIDIDX\0\0" and struct.unpack_from("<Q", idx, 9) == (1,)
    letter, size = {1: ("B", 1), 8: ("H", 2), 4: ("i", 4), 5: ("q", 8)}[idx[17]]
    n, n_documents = struct.unpack_from("<QQ", idx, 18)
    lengths = struct.unpack_from(f"<{n}i", idx, 34)
    offsets = struct.unpack_from(f"<{n}q", idx, 34 + 4 * n)
    first = struct.unpack_from(f"<{n_documents}q", idx, 34 + 12 * n)
    assert len(idx) == 34 + 12 * n + 8 * n_documents and first[0] == 0 and first[-1] == n
    rows = [list(struct.unpack_from(f"<{k}{letter}", bin_, o)) for k, o in zip(lengths, offsets)]
    assert sum(lengths) * size == len(bin_)
    return [sum(rows[a:b], []) for a, b in zip(first, first[1:])]


def bytes_of(text, end=256):
    return list(text.encode()) + ([end] if end is not None else [])


def forms_of_files(at):
    """JSONL, gzip, zstd, standard input and any number of threads give the same files."""
    texts = (DATA / "tinyshakespeare.txt").read_text().split("\n\n")
    lines = "".join(json.dumps({"id": i, "m": {"text": "no"}, "text": t}) + "\n" for i, t in enumerate(texts))
    (at / "a.jsonl").write_text(lines)
    with gzip.open(at / "b.jsonl.gz", "wt") as file:
        file.write(lines[:1000000])
    with gzip.open(at / "b.jsonl.gz", "at") as file:  # a second member
        file.write(lines[1000000:])
    run("tokenize", at / "a.jsonl", "-o", at / "a", "--tokenizer", GPT2, "-j", 1)
    ways = [(["tokenize", at / "b.jsonl.gz", "-j", 3], None), (["tokenize", "-", "-j", 2], lines.encode())]
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", at / "a.jsonl", "-o", at / "c.jsonl.zst"], check=True)
        ways.append((["tokenize", at / "c.jsonl.zst"], None))
    for words, data in ways:
        run(*words, "-o", at / "b", "--tokenizer", GPT2, "--overwrite", data=data)
        for end in (".bin", ".idx", ".json"):
            assert (at / f"a{end}").read_bytes() == (at / f"b{end}").read_bytes(), (words, end)
    rows = read(at / "a")
    assert len(rows) == sum(1 for t in texts if t) and all(row[-1] == 50256 for row in rows)
    made = json.loads((at / "a.json").read_text())
    assert made["documents"] == len(rows) and made["tokens"] == sum(map(len, rows)) and made["end_of_document"] == 50256


def plain_text(at):
    (at / "x1.txt").write_text("one\n\n\ntwo\nlines\n")
    (at / "x2.txt").write_text("three")
    run("tokenize", at / "x*.txt", "-o", at / "p")
    assert read(at / "p") == [bytes_of("one\n\n\ntwo\nlines\n"), bytes_of("three")]
    run("tokenize", at / "x1.txt", at / "x2.txt", "-o", at / "q", "--documents", "paragraph", "--no-eod", "--dtype", "i32")
    assert read(at / "q") == [bytes_of("one", None), bytes_of("two\nlines\n", None), bytes_of("three", None)]
    run("tokenize", at / "x1.txt", "-o", at / "r", "--documents", "line", "--eod", "\n")
    assert read(at / "r") == [bytes_of("one", 10), bytes_of("two", 10), bytes_of("lines", 10)]
    long = "x" * 3000000 + "\n\nend"  # longer than a batch
    run("tokenize", "-", "-o", at / "s", "--documents", "paragraph", data=long.encode())
    assert [len(row) for row in read(at / "s")] == [3000001, 4]


def special_tokens(at):
    """What spells a special token becomes it, unless it shall stay text; the end of a document is a token in both."""
    (at / "t.txt").write_text("a<|endoftext|>b")
    run("tokenize", at / "t.txt", "-o", at / "t1", "--tokenizer", GPT2)
    assert read(at / "t1") == [[64, 50256, 65, 50256]], read(at / "t1")
    run("tokenize", at / "t.txt", "-o", at / "t2", "--tokenizer", GPT2, "--specials", "text")
    assert read(at / "t2") == [[64, 27, 91, 437, 1659, 5239, 91, 29, 65, 50256]], read(at / "t2")
    assert "expected one of" in run("tokenize", at / "t.txt", "-o", at / "t3", "--specials", "what", code=2)


def modes(at):
    """An .idx with a mode for each sequence merges as one without; the note says that modes are left out."""
    (at / "u.txt").write_text("one")
    run("tokenize", at / "u.txt", "-o", at / "u1")
    run("tokenize", at / "u.txt", "-o", at / "u2")
    (at / "u2.idx").write_bytes((at / "u1.idx").read_bytes() + b"\1")
    assert "modes are left out" in run("merge", at / "u2", "-o", at / "u3")
    for end in (".bin", ".idx"):
        assert (at / f"u3{end}").read_bytes() == (at / f"u1{end}").read_bytes(), end


def malformed(at):
    (at / "bad.jsonl").write_bytes(b'{"text":"ok"}\n{"text":5}\n\n{"te\n{"x":"y"}\r\n[1]\n{"text":""}\n'
                                   b'{"text":"\xff"}\n{"text":{"text":"in"}}\n{"a":{"text":"in"},"text":"fine"}')
    said = run("tokenize", at / "bad.jsonl", "-o", at / "m", code=3)
    assert "bad.jsonl:2: \"text\" is a number, expected a string; --malformed skip" in said, said
    assert not list(at.glob("m.*")), "a failed run leaves files behind"
    said = run("tokenize", at / "bad.jsonl", "-o", at / "m", "--malformed", "skip")
    for line in (2, 4, 5, 6, 8, 9):
        assert f"bad.jsonl:{line}: skipped" in said, said
    assert "2 (1 empty ones left out, 6 malformed lines skipped)" in said, said
    assert read(at / "m") == [bytes_of("ok"), bytes_of("fine")]
    assert "there is no key \"body\"" in run("tokenize", at / "bad.jsonl", "-o", at / "n", "--key", "body", code=3)
    whole = gzip.compress(b'{"text":"abc"}\n' * 1000)
    (at / "cut.jsonl.gz").write_bytes(whole[:-20])
    assert "damaged" in run("tokenize", at / "cut.jsonl.gz", "-o", at / "n", code=3)


def refusals(at):
    (at / "x.txt").write_text("x")
    run("tokenize", at / "x.txt", "-o", at / "v")
    assert "exists" in run("tokenize", at / "x.txt", "-o", at / "v", code=2)
    assert "names no file" in run("tokenize", at / "no*", "-o", at / "w", code=3)
    assert "no such token" in run("tokenize", at / "x.txt", "-o", at / "w", "--eod", "<none>", code=2)
    assert "holds ids up to 255" in run("tokenize", at / "x.txt", "-o", at / "w", "--dtype", "u8", code=2)
    assert "unknown command" in run("nothing", "x", "-o", "y", code=2)
    assert "expected one of" in run("tokenize", "x", "-o", "y", "--malformed", "what", code=2)
    assert "unrecognised option" in run("tokenize", "x", "--what", code=2)
    assert "contradict" in run("tokenize", "x", "-o", "y", "--eod", "a", "--no-eod", code=2)
    assert "tokenize INPUT" in run("--help")


def merging(at):
    (at / "y1.txt").write_text("one")
    (at / "y2.txt").write_text("two")
    for i in (1, 2):
        run("tokenize", at / f"y{i}.txt", "-o", at / f"y{i}")
    run("tokenize", at / "y2.txt", "-o", at / "y3", "--tokenizer", GPT2)
    run("merge", at / "y2", at / "y1.bin", at / "y2", "-o", at / "z")
    assert read(at / "z") == [bytes_of("two"), bytes_of("one"), bytes_of("two")]
    assert json.loads((at / "z.json").read_text())["documents"] == 3
    assert "do not belong together" in run("merge", at / "y1", at / "y3", "-o", at / "z2", code=3)
    (at / "y1.json").unlink()
    assert "will not say which tokenizer" in run("merge", at / "y1", at / "y2", "-o", at / "z3")
    assert not (at / "z3.json").exists()


def inspecting(at):
    """Samples are shown with their documents and masks, from files and through a deck."""
    (at / "d.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in ("one", "two", "three\n", "four")))
    run("tokenize", at / "d.jsonl", "-o", at / "d")
    said = run("data", at / "d", "0", "--sequence", 18, "--tokenizer", "byte", program=INSPECT)
    for line in ('[0, 4) "one<|endoftext|>"', '[4, 8) "two<|endoftext|>"', '[8, 15) "three\\n<|endoftext|>"', '[15, 18) "fou"',
                 'then     "r"', "1 an epoch"):
        assert line in said, (line, said)
    (at / "d.toml").write_text('[model]\nlayers = 1\nhidden = 8\nheads = 1\nvocab = 257\nsequence = 6\n[data]\n'
                               'source = "tokens"\npaths = ["d"]\ntokenizer = "byte"\nmask_eod = true\nvalidation_fraction = 0\n'
                               'mask_documents = true\n[eval]\nevery = 0\n')
    said = run("data", at / "d.toml", program=INSPECT)
    assert "documents are separate" in said and '[0, 4) "one<|endoftext|>"' in said, said
    assert 'no loss at 3, where "<|endoftext|>" would predict "t"' in said, said
    rows = [json.loads(line) for line in run("data", at / "d.toml", 0, 1, 2, "--json", program=INSPECT).splitlines()]
    first = next(row for row in rows if row["text"].startswith("one"))
    assert first["document_starts"] == [0, 4] and first["without_loss"] == [3] and len(first["tokens"]) == 7, rows
    assert "is no sample number" in run("data", at / "d", "x", "--sequence", 4, program=INSPECT, code=2)


def training(at):
    text = DATA / "tinyshakespeare.txt"
    for style in ("gpt2", "llama3"):
        out = at / f"{style}.json"
        run("train-tokenizer", text, "-o", out, "--vocab", 700, "--style", style, "--special", "<|endoftext|>", "--special", "<x>")
        made = json.loads(out.read_text())
        assert len(made["model"]["vocab"]) == 700 and made["added_tokens"][1]["content"] == "<x>"
        run("tokenize", text, "-o", at / "t", "--tokenizer", out, "--overwrite")
        row = read(at / "t")[0]
        names = {i: t for t, i in made["model"]["vocab"].items()}
        assert row[-1] == 0 and max(row) < 700 and 0.3 < len(row) / text.stat().st_size < 0.6
        spelled = "".join(names[i] for i in row[:-1]).replace("\u0120", " ").replace("\u010a", "\n")
        assert spelled == text.read_text()
    # The vocabulary that Hugging Face's trainer learns from this text, for 700 tokens: its last merges.
    merges = json.loads((at / "gpt2.json").read_text())["model"]["merges"]
    assert len(merges) == 442 and merges[:3] == ["\u0120 t", "h e", "\u0120 a"], merges[:3]
    assert "fewer than --vocab" in run("train-tokenizer", "-", "-o", at / "few.json", "--vocab", 5000, data=b"ab ab ab")
    assert "has no room" in run("train-tokenizer", text, "-o", at / "none.json", "--vocab", 100, code=2)


def main():
    for check in (forms_of_files, plain_text, special_tokens, modes, malformed, refusals, merging, inspecting, training):
        with tempfile.TemporaryDirectory() as folder:
            check(Path(folder))
        print("ok", check.__name__)


if __name__ == "__main__":
    main()
