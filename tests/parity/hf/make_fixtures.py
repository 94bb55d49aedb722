#!/usr/bin/env python3
"""Computes the expected numbers of tests/parity/hf with PyTorch and transformers (CPU builds of PyPI are enough).

    python3 -m venv VENV && VENV/bin/pip install torch transformers safetensors numpy
    VENV/bin/python tests/parity/hf/make_fixtures.py tests/parity/hf [--against FOLDER]

For each family FOLDER/<family>/ holds config.json and model.safetensors (fp32). A family that is not there yet is made
from the configuration below with seeded random weights; weights that are there are kept. Written is
expected.safetensors: input_ids (2 x 48), loss (mean over tokens 1..47 of each sequence given those before), the logits
of the first sequence, grad.<parameter>, and greedy: the first 8 tokens and the 16 that greedy decoding appends.

transformers computes RMS norms and rotary tables in fp32 whatever the type of the model, and rounds the loss to fp32.
Here both are replaced by the same formulas in fp64, so that a reader may ask for fp64's own accuracy; a check compares
the frequencies with those of transformers to fp32's. --against FOLDER compares with <family>/expected.safetensors
computed elsewhere and prints the largest relative differences (for GPT-2, which has neither of the two, rounding only).
"""
import argparse
import math
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

N_SEQUENCES, N_TOKENS, N_PROMPT, N_GREEDY = 2, 48, 8, 16
SMALL = dict(vocab_size=131, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64,
             bos_token_id=0, eos_token_id=0)
MADE_HERE = {
    "gpt_neox": lambda: transformers.GPTNeoXConfig(
        **SMALL, intermediate_size=96, rotary_pct=0.25, rotary_emb_base=10000, hidden_act="gelu",
        use_parallel_residual=True, attention_dropout=0.0, hidden_dropout=0.0),
    "gpt_neox_serial": lambda: transformers.GPTNeoXConfig(
        **SMALL, intermediate_size=96, rotary_pct=0.5, rotary_emb_base=10000, hidden_act="gelu",
        use_parallel_residual=False, attention_dropout=0.0, hidden_dropout=0.0),
    "mistral": lambda: transformers.MistralConfig(
        **SMALL, intermediate_size=72, num_key_value_heads=2, head_dim=8, sliding_window=10, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "qwen3": lambda: transformers.Qwen3Config(
        **SMALL, intermediate_size=72, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
}
KEPT = ["gpt2", "llama", "llama31_tied", "qwen2"]


def exact_rms_norm(self, x):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
    return self.weight * (x * scale)


def exact_frequencies(config):
    """Inverse frequencies of the default and the Llama 3 rotary embedding, one per pair of channels."""
    rope = config.rope_parameters
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    n = int(head * rope.get("partial_rotary_factor", 1.0))
    angles = [rope["rope_theta"] ** (-i / n) for i in range(0, n, 2)]
    if rope["rope_type"] == "default":
        return angles
    assert rope["rope_type"] == "llama3", rope
    stretched = []
    for angle in angles:
        turns = rope["original_max_position_embeddings"] * angle / (2 * math.pi)
        smooth = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        smooth = min(1.0, max(0.0, smooth))
        stretched.append((1 - smooth) * angle / rope["factor"] + smooth * angle)
    return stretched


def exact_rotary(self, x, position_ids):
    angles = position_ids[..., None].double() * torch.tensor(self.exact, dtype=torch.float64)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos(), both.sin()


def make_exact(model):
    """fp64 where transformers would round to fp32."""
    model.double()
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = exact_rms_norm.__get__(module)
        if name.endswith("RotaryEmbedding"):
            module.exact = exact_frequencies(model.config)
            torch.testing.assert_close(module.inv_freq.double(), torch.tensor(module.exact, dtype=torch.float64),
                                       rtol=1e-6, atol=0)
            module.forward = exact_rotary.__get__(module)
    return model


def make_weights(folder, config, seed):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (1 if gain else 0))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def greedy(model, prompt):
    tokens, closest = prompt.clone(), math.inf
    for _ in range(N_GREEDY):
        best = model(tokens[None]).logits[0, -1].topk(2)
        closest = min(closest, (best.values[0] - best.values[1]).item())
        tokens = torch.cat((tokens, best.indices[:1]))
    return tokens, closest


def name_in_file(name, names):
    """transformers 5 calls GPT-NeoX's head lm_head in memory and embed_out in files."""
    return "embed_out.weight" if name == "lm_head.weight" and "embed_out.weight" in names else name


def expected_of(model, input_ids, names):
    logits = model(input_ids).logits
    assert logits.dtype == torch.float64
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), input_ids[:, 1:].flatten())
    loss.backward()
    values = {"input_ids": input_ids, "logits": logits[0].detach().contiguous(), "loss": loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():
        values["grad." + name_in_file(name, names)] = parameter.grad.detach().contiguous()
    with torch.no_grad():
        values["greedy"], closest = greedy(model, input_ids[0, :N_PROMPT])
    return values, closest


def largest_difference(ours, theirs):
    worst = {}
    for name, other in theirs.items():
        mine = ours[name].double()
        other = other[:1].squeeze(0) if name == "logits" and other.dim() == 3 else other
        kind = "gradients" if name.startswith("grad.") else name
        scale = other.double().abs().max().item()
        difference = (mine.reshape(other.shape) - other.double()).abs().max().item()
        worst[kind] = max(worst.get(kind, 0), difference / scale)
    return ", ".join(f"{kind} {value:.1e}" for kind, value in worst.items() if kind != "greedy")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path, help="folder of the same families, computed elsewhere")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for seed, family in enumerate(KEPT + list(MADE_HERE)):
        folder = arguments.folder / family
        if not (folder / "model.safetensors").exists():
            make_weights(folder, MADE_HERE[family](), 1000 + seed)
        model = make_exact(transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa"))
        before = folder / "expected.safetensors"
        input_ids = torch.randint(model.config.vocab_size, (N_SEQUENCES, N_TOKENS),
                                  generator=torch.Generator().manual_seed(seed))
        if before.exists():
            input_ids = load_file(before)["input_ids"]
        values, closest = expected_of(model, input_ids, load_file(folder / "model.safetensors").keys())
        save_file(values, before)
        print(f"{family:16s} loss {values['loss'].item():.15f}, greedy tokens lead by {closest:.1e} or more")
        other = arguments.against / family / "expected.safetensors" if arguments.against else None
        if other and other.exists():
            print(f"{'':16s} relative differences: {largest_difference(values, load_file(other))}")


if __name__ == "__main__":
    main()
