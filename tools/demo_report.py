#!/usr/bin/env python3
"""demo_report.py RUN_FOLDER TEXT: the losses of a run on bytes beside what counting letters alone would reach."""
import json
import math
import sys
from collections import Counter
from pathlib import Path


def unigram_entropy(text):
    """Nats per byte of a model that knows the frequencies of the bytes and nothing else."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log(n / len(text)) for n in counts.values())


def main():
    run, text = Path(sys.argv[1]), Path(sys.argv[2])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    training = [(line["step"], line["loss"]) for line in lines if line.get("loss") is not None]
    validation = [(line["step"], line["validation_loss"]) for line in lines if line.get("validation_loss") is not None]
    entropy = unigram_entropy(text.read_bytes())

    print(f"text          {text} ({text.stat().st_size / 1e6:.1f} MB)")
    print(f"guessing      {math.log(257):.3f} nats per byte: all 257 tokens alike")
    print(f"counting      {entropy:.3f} nats per byte: knowing how often each byte occurs")
    print(f"step {training[0][0]:8d} {training[0][1]:.3f} training")
    before = training[0][0]
    for step, loss in validation:
        since = [x for s, x in training if before < s <= step]
        mean = f"{sum(since) / len(since):.3f} training (mean of {len(since)} logged steps)" if since else ""
        print(f"step {step:8d} {loss:.3f} validation  {mean}")
        before = step
    print(f"run folder    {run}: deck.toml, log.txt, metrics.jsonl, checkpoints/")
    if not validation or not validation[-1][1] < entropy:
        sys.exit(f"the model learned nothing: its validation loss is not below {entropy:.3f}")


if __name__ == "__main__":
    main()
