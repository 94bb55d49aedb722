#!/usr/bin/env python3
"""demo_report.py RUN_FOLDER PREFIX: the losses of a run on token files beside what counting tokens alone would reach."""
import json
import math
import sys
from array import array
from collections import Counter
from pathlib import Path


def unigram_entropy(tokens):
    """Nats per token of a model that knows the frequencies of the tokens and nothing else."""
    counts = Counter(tokens)
    return -sum(n / len(tokens) * math.log(n / len(tokens)) for n in counts.values())


def main():
    run, prefix = Path(sys.argv[1]), sys.argv[2]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    training = [(line["step"], line["loss"]) for line in lines if line.get("loss") is not None]
    validation = [(line["step"], line["validation_loss"]) for line in lines if line.get("validation_loss") is not None]
    made = json.loads(Path(prefix + ".json").read_text())
    tokens = array("H", Path(prefix + ".bin").read_bytes())  # two bytes each, for a vocabulary below 65500
    n_bytes = Path(prefix + ".txt").stat().st_size
    entropy = unigram_entropy(tokens)

    print(f"text          {prefix}.txt ({n_bytes / 1e6:.1f} MB), {len(tokens)} tokens of {n_bytes / len(tokens):.2f} bytes")
    print(f"guessing      {math.log(made['vocab']):.3f} nats per token: all {made['vocab']} tokens alike")
    print(f"counting      {entropy:.3f} nats per token: knowing how often each token occurs")
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
    bits = validation[-1][1] / math.log(2) * len(tokens) / n_bytes
    print(f"              {bits:.2f} bits per byte of text")


if __name__ == "__main__":
    main()
