#!/usr/bin/env python3
"""hf_tokenizers.py PREPROCESS [--mb N] [--threads N]   GPT-2 BPE of the same JSONL file: Hugging Face tokenizers against preprocess.

Each in turn, three times, best of each; the tokens must be equal. Hugging Face (PyPI tokenizers) uses its own threads
(encode_batch_fast, RAYON_NUM_THREADS) and a loop as a user writes it: read lines, encode batches, write u16. Ends with 1
when preprocess is less than twice as fast.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"


def write_jsonl(path, megabytes):
    """Paragraphs of the text, again and again in turn with numbers, so that they are not all the same."""
    paragraphs = [p for p in (DATA / "tinyshakespeare.txt").read_text().split("\n\n") if p]
    size, i = 0, 0
    with open(path, "w") as file:
        while size < megabytes * 1e6:
            text = "\n\n".join(paragraphs[(i * 7 + k) % len(paragraphs)] for k in range(12)) + f"\n\n{i} {i * i}"
            file.write(json.dumps({"text": text}) + "\n")
            size, i = size + len(text), i + 1
    return size


def hugging_face(tokenizers, path, out):
    gpt2 = DATA / "tokenizers/gpt2"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(gpt2 / "encoder.json"), str(gpt2 / "vocab.bpe")))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    start = time.perf_counter()
    with open(path) as lines, open(out, "wb") as bin_:
        while batch := [json.loads(line)["text"] for line in lines.readlines(4000000)]:
            for row in encode(batch, add_special_tokens=False):
                array("H", row.ids + [50256]).tofile(bin_)
    return time.perf_counter() - start


def preprocess(program, path, out, threads):
    start = time.perf_counter()
    subprocess.run([program, "tokenize", path, "-o", out, "--tokenizer", str(DATA / "tokenizers/gpt2"), "-j", str(threads),
                    "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preprocess")
    parser.add_argument("--mb", type=float, default=50)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(given.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import tokenizers
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text.jsonl")
        size = write_jsonl(path, given.mb)
        theirs, ours = [], []
        for _ in range(3):
            theirs.append(hugging_face(tokenizers, path, os.path.join(folder, "hf.bin")))
            ours.append(preprocess(given.preprocess, path, os.path.join(folder, "us"), given.threads))
        same = Path(folder, "hf.bin").read_bytes() == Path(folder, "us.bin").read_bytes()
    for name, seconds in ((f"tokenizers {tokenizers.__version__}", min(theirs)), ("preprocess", min(ours))):
        print(f"{name:20s} {seconds:7.2f} s  {size / 1e6 / seconds:7.1f} MB/s")
    ratio = min(theirs) / min(ours)
    print(f"{'ratio':20s} {ratio:7.2f}    {given.threads} threads, {size / 1e6:.0f} MB, tokens {'equal' if same else 'DIFFER'}")
    sys.exit(0 if same and ratio >= 2 else 1)


if __name__ == "__main__":
    main()
