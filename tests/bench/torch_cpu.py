#!/usr/bin/env python3
"""Seconds per training step of GPT-2 in PyTorch on the CPU, on the shape of a Trireme deck, beside Trireme itself.

usage: torch_cpu.py TRIREME [--deck inputs/bench/gpt_124m_cpu.toml] [--threads 2] [--steps 5]
Both run in this one call, in turn, with the same number of threads; medians of the steps after the first.
Debian: python3-torch. PyTorch gets what it is best at: fused attention, foreach AdamW, gradients accumulated in place.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
import tomllib

# OpenBLAS 0.3.21 does not know newer processors and falls back to SSE3; Trireme tells it better, so PyTorch is told as well.
with open("/proc/cpuinfo") as cpuinfo:
    flags = cpuinfo.read()
os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX" if "avx512vl" in flags else "Haswell" if "avx2" in flags else "")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((s, s), float("-inf")).triu(1)
            a = torch.softmax(q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5 + mask, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(b, s, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, sequence):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def torch_seconds(deck, threads, steps):
    torch.set_num_threads(threads)
    m, batch = deck["model"], deck["batch"]
    vocab = -(-m["vocab"] // 128) * 128
    model = Gpt(m["layers"], m["hidden"], m["heads"], vocab, m["sequence"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, foreach=True)
    n_micro = batch["global"] // batch["micro"]
    ids = torch.randint(0, m["vocab"], (n_micro, batch["micro"], m["sequence"]))
    targets = torch.randint(0, m["vocab"], ids.shape)
    seconds = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        for micro in range(n_micro):
            (model(ids[micro], targets[micro]) / n_micro).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def trireme_seconds(program, deck_path, threads, steps):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "train", deck_path, f"run.steps={steps + 1}", f"run.output={folder}", "log.every=1",
                        f"device.threads={threads}", "device.kind=cpu"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    return statistics.median([line["step_s"] for line in lines if "step_s" in line][1:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trireme")
    arguments.add_argument("--deck", default="inputs/bench/gpt_124m_cpu.toml")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--steps", type=int, default=5)
    a = arguments.parse_args()
    resolved = subprocess.run([a.trireme, "deck", a.deck], check=True, capture_output=True, text=True).stdout
    deck = tomllib.loads(resolved)
    tokens = deck["batch"]["global"] * deck["model"]["sequence"]
    theirs = torch_seconds(deck, a.threads, a.steps)
    os.environ.pop("OPENBLAS_CORETYPE")
    ours = trireme_seconds(a.trireme, a.deck, a.threads, a.steps)
    print(f"{a.threads} threads, {tokens} tokens per step, median of {a.steps} steps")
    print(f"PyTorch {torch.__version__:<12} {theirs:7.3f} s  {tokens / theirs:7.0f} tok/s")
    print(f"Trireme              {ours:7.3f} s  {tokens / ours:7.0f} tok/s   {theirs / ours:.2f} times PyTorch")


if __name__ == "__main__":
    main()
