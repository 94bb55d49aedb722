"""Hugging Face in and out, and generate: fixtures come back byte for byte, a trained checkpoint survives the round trip,
what does not fit is refused by name, and a prompt gives the same text on every grid. No PyTorch is needed."""
import json
import os
import shutil
import struct
import subprocess
import sys

import job

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity", "hf")
FAMILIES = ["gpt2", "gpt_neox", "gpt_neox_serial", "llama", "llama31_tied", "mistral", "qwen2", "qwen3"]
CONVERT = os.path.join(os.path.dirname(job.PROGRAM), "tools", "convert")


def convert(*arguments):
    result = subprocess.run([CONVERT, *map(str, arguments)], capture_output=True, text=True)
    return job.Ended(result.returncode, result.stdout, result.stderr, 0)


def report(name, *faults):
    faults = [fault for fault in faults if fault]
    print(f"{'FAIL' if faults else 'ok  '} {name}", *faults, sep="\n     ", flush=True)
    return bool(faults)


def ended(result, code, *texts):
    if result.code != code:
        return f"exit code {result.code}, expected {code}: {result.out[-800:]} {result.err[-800:]}"
    missing = [text for text in texts if text not in result.out + result.err]
    return f"no line holds {missing}: {result.out[-800:]} {result.err[-800:]}" if missing else None


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    first = 8 + length
    return {name: (entry["dtype"], entry["shape"],
                   data[first + entry["data_offsets"][0]:first + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def tensors_in(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read_safetensors(os.path.join(folder, "model.safetensors"))
    with open(index) as file:
        weight_map = json.load(file)["weight_map"]
    pieces = {piece: read_safetensors(os.path.join(folder, piece)) for piece in set(weight_map.values())}
    return {name: pieces[piece][name] for name, piece in weight_map.items()}


def config_of(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)


# Keys of the original that say something about the model and must come back with the same value.
def config_faults(original, exported):
    neutral = {"transformers_version", "max_window_layers", "n_ctx", "pretraining_tp", "classifier_dropout", "is_decoder",
               "reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "add_cross_attention"}
    faults = []
    for key, value in original.items():
        if key in neutral or key.startswith("summary_") or (value is None and exported.get(key) is None):
            continue
        if key == "n_inner" and value is None and exported[key] == 4 * original["n_embd"]:
            continue
        if exported.get(key) != value:
            faults.append(f"config.json: {key} = {exported.get(key)}, was {value}")
    return faults


def round_trips(folder):
    failures = 0
    for family in FAMILIES:
        source, checkpoint = os.path.join(FIXTURES, family), os.path.join(folder, family + ".h5")
        one, pieces = os.path.join(folder, family), os.path.join(folder, family + "_pieces")
        faults = [ended(convert("import", source, checkpoint, "--check"), 0, "check: pass"),
                  ended(convert("export", checkpoint, one, "--like", source, "--check"), 0, "check: pass"),
                  ended(convert("export", checkpoint, pieces, "--shard-gb", "0.0001"), 0, "safetensors files"),
                  ended(convert("import", pieces, checkpoint + "2", "--check"), 0, "check: pass")]
        if not any(faults):
            original = tensors_in(source)
            faults += [f"{kind}: other tensors" for kind in (one, pieces) if tensors_in(kind) != original]
            faults += config_faults(config_of(source), config_of(one))
        failures += report(f"{family}: imported, exported whole and in pieces, byte for byte", *faults)
    return failures


def half_precision(folder):
    """The upper halves of fp32 are bf16; transposed and fused tensors among them."""
    failures = 0
    for family in ("gpt2", "gpt_neox", "qwen2"):
        source = os.path.join(folder, family + "_bf16")
        os.makedirs(source)
        shutil.copy(os.path.join(FIXTURES, family, "config.json"), source)
        tensors = {name: ("BF16", shape, b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4)))
                   for name, (_, shape, data) in tensors_in(os.path.join(FIXTURES, family)).items()}
        write_safetensors(os.path.join(source, "model.safetensors"), tensors)
        checkpoint, back, wide = source + ".h5", source + "_back", source + "_wide"
        faults = [ended(convert("import", source, checkpoint, "--check"), 0, "in bf16", "check: pass"),
                  ended(convert("export", checkpoint, back), 0, "in bf16"),
                  ended(convert("export", checkpoint, wide, "--dtype", "fp32", "--check"), 0, "in f32", "check: pass")]
        if not any(faults):
            faults += ["other tensors" if tensors_in(back) != tensors else None]
            widened = {name: ("F32", shape, b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))
                       for name, (_, shape, data) in tensors.items()}
            faults += ["other tensors in fp32" if tensors_in(wide) != widened else None]
        failures += report(f"{family} in bf16 comes back, and widened", *faults)
    return failures


def trained(folder):
    """Training goes on from an import on another grid; what it saves survives the round trip."""
    deck, source = os.path.join(folder, "llama31_tied.toml"), os.path.join(folder, "llama31_tied")
    run = os.path.join(folder, "run")
    result = job.run(2, ["train", deck, "data.source=mock", "run.steps=2", f"run.output={run}", "model.sequence=32",
                         "parallel.tensor=2", "batch.global=2", "eval.every=0", "device.kind=cpu"])
    faults = [ended(result, 0)]
    checkpoint, out, again = os.path.join(run, "checkpoints", "step_00000002.h5"), run + "_hf", run + "_hf2"
    faults += [ended(convert("export", checkpoint, out, "--like", source, "--check"), 0, "check: pass"),
               ended(convert("import", out, run + ".h5", "--check"), 0, "check: pass"),
               ended(convert("export", run + ".h5", out + "2", "--like", source), 0)]
    if not any(faults):
        faults += ["other tensors" if tensors_in(out) != tensors_in(again) else None,
                   "training changed nothing" if tensors_in(out) == tensors_in(source) else None]
        faults += config_faults(config_of(source), config_of(out))
    return report("a checkpoint trained from an import survives export and import", *faults)


def refusals(folder):
    def broken(name, change, family="llama"):
        target = os.path.join(folder, "broken_" + name)
        shutil.copytree(os.path.join(FIXTURES, family), target)
        os.remove(os.path.join(target, "expected.safetensors"))
        change(target)
        return target

    def edit(**keys):
        def change(target):
            config = config_of(target) | keys
            job.write(os.path.join(target, "config.json"), json.dumps(config))
        return change

    def tensors(change):
        def apply(target):
            path = os.path.join(target, "model.safetensors")
            held = read_safetensors(path)
            change(held)
            write_safetensors(path, held)
        return apply

    def index(text):
        def change(target):
            job.write(os.path.join(target, "model.safetensors.index.json"), text)
        return change

    cases = [
        ("another kind", edit(model_type="mamba"), 3, "\"mamba\""),
        ("a feature", edit(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2}), 3, "yarn"),
        ("sizes", edit(intermediate_size=173), 3, "[172, 64]"),
        ("layers", edit(num_hidden_layers=4), 3, "model.layers.3."),
        ("vocabulary", edit(vocab_size=330), 3, "331 rows"),
        ("an unknown tensor", tensors(lambda t: t.update(extra=("F32", [1], b"\0\0\0\0"))), 3, "extra"),
        ("a missing tensor", tensors(lambda t: t.pop("model.norm.weight")), 3, "model.norm.weight"),
        ("an index of absent files", index('{"weight_map": {"lm_head.weight": "a.safetensors"}}'), 3, "a.safetensors"),
        ("an index without a map", index("{}"), 3, "weight_map"),
        ("an index that leads outside", index('{"weight_map": {"x": "../a.safetensors"}}'), 3, "not mapped"),
    ]
    failures = 0
    for number, (name, change, code, text) in enumerate(cases):
        target = broken(str(number), change)
        result = convert("import", target, os.path.join(folder, "never.h5"))
        left = [file for file in os.listdir(folder) if file.startswith("never")]
        failures += report(f"refused: {name}", ended(result, code, text), f"left {left}" if left else None)
    whole = os.path.join(folder, "llama.h5")
    failures += report("refused: a folder that is not empty",
                       ended(convert("export", whole, os.path.join(folder, "llama")), 3, "not an empty folder"))
    failures += report("refused: no checkpoint", ended(convert("export", os.path.join(folder, "llama", "config.json"),
                                                               os.path.join(folder, "no")), 3, "config.json"))
    failures += report("refused: nonsense", ended(convert("import", "a"), 2, "convert import"))
    return failures


def generate(ranks, *arguments):
    return job.run(ranks, ["generate", *arguments, "device.kind=cpu", "device.threads=1"])


def speech(folder):
    checkpoint, hf = os.path.join(folder, "llama.h5"), os.path.join(FIXTURES, "llama")
    common = ["--tokenizer", "byte", "--prompt", "Once upon", "--tokens", "20", "--seed", "5", "--top-k", "50",
              "--temperature", "0.8"]
    said = [generate(0, checkpoint, *common), generate(0, hf, *common), generate(2, checkpoint, *common),
            generate(2, hf, *common)]
    faults = [ended(result, 0, "Once upon") for result in said]
    if len({result.out for result in said}) != 1:
        faults.append(f"different texts: {[result.out for result in said]}")
    failures = report("a checkpoint and its folder say the same on one rank and on tp2", *faults)

    prompts = os.path.join(folder, "prompts.jsonl")
    texts = ["Once upon", "x", "A longer prompt than the others", "Once upon"]
    job.write(prompts, "".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    rest = common[:2] + common[4:]
    lines = generate(2, checkpoint, *rest, "--prompts", prompts, "--batch", "3")
    output = os.path.join(folder, "said.jsonl")
    one_by_one = generate(0, checkpoint, *rest, "--prompts", prompts, "--batch", "1", "--output", output)
    faults = [ended(lines, 0), ended(one_by_one, 0)]
    if not any(faults):
        with open(output) as file:
            alone = [json.loads(line) for line in file]
        batched = [json.loads(line) for line in lines.out.splitlines()]
        faults += ["batched and single texts differ" if alone != batched else None,
                   "prompts out of order" if [line["prompt"] for line in alone] != texts else None,
                   "one prompt, two texts" if alone[0]["text"] != alone[3]["text"] else None,
                   "not the streamed text" if texts[0] + alone[0]["text"] + "\n" != said[0].out else None]
    failures += report("prompts in batches on tp2 and one by one get the same texts, in order", *faults)

    refused = [
        (["--prompt", "a"], "--tokenizer"),
        (["--prompt", "a", "--tokenizer", "byte", "parallel.pipeline=2"], "pipeline would idle"),
        (["--prompt", "a", "--tokenizer", "byte", "lr.max=1"], "lr.max=1"),
        (["--tokenizer", "byte"], "--prompt"),
        (["--prompt", "a", "--top-p", "0"], "--top-p"),
        (["--prompts", os.path.join(folder, "llama.toml"), "--tokenizer", "byte"], "llama.toml:1"),
    ]
    for arguments, text in refused:
        result = generate(0, checkpoint, *arguments)
        failures += report(f"refused: {text}", f"exit code {result.code}" if result.code not in (2, 3) else None,
                           None if text in result.err else result.err)
    return failures


def runs(folder):
    """A run folder knows its newest checkpoint and its tokenizer."""
    text = job.write(os.path.join(folder, "text", "a.txt"), "The quick brown fox jumps over the lazy dog. " * 60)
    other = os.path.join(FIXTURES, "..", "..", "data", "tokenizers", "gpt2")
    deck = job.write(os.path.join(folder, "text.toml"), job.SMALL.replace("vocab = 61", "vocab = 257"))
    run = os.path.join(folder, "text_run")
    result = job.run(0, ["train", deck, "data.source=text", f"data.paths=['{text}']", "data.tokenizer=byte", "run.steps=4",
                         "checkpoint.every=2", f"run.output={run}"])
    spoken = generate(0, run, "--prompt", "The", "--temperature", "0")
    named = generate(0, os.path.join(run, "checkpoints", "step_00000004.h5"), "--prompt", "The", "--temperature", "0",
                     "--tokenizer", "byte")
    failures = report("a run folder speaks with its newest checkpoint, as far as its positions reach", ended(result, 0),
                      ended(spoken, 0, "The"), "another text" if spoken.out != named.out else None,
                      None if "13 tokens" in spoken.err else spoken.err)
    failures += report("refused: more tokens than positions", ended(generate(0, run, "--prompt", "The", "--tokens", "14"), 2,
                                                                    "16 learned positions"))
    wrong = generate(0, run, "--prompt", "The", "--tokenizer", other)
    return failures + report("refused: the tokenizer of another model", ended(wrong, 3, "was trained with"))


def main():
    with job.folder() as folder:
        failures = round_trips(folder) + half_precision(folder) + trained(folder) + refusals(folder)
        failures += speech(folder) + runs(folder)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
