#!/usr/bin/env python3
"""make.py   Writes the small tokenizers of this folder and what Hugging Face makes of some texts with them.

Each is a BPE of some hundred tokens, trained on ../tinyshakespeare.txt and the texts below, with the parts that a family of
models uses. Needs PyPI tokenizers and sentencepiece (0.23.3 and 0.2.3 wrote what is here). No test needs Python.
"""
import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = [
    "Hello, world!", "  leading and   inner  spaces ", " ", "   ", "\n", " \n ", "a\n\n  b \n", "tabs\tand\r\nreturns\r\n",
    "It's they're I'll we'd don't 'S 'LL 'Re x'\u017f", "numbers 0 12 345 6789 1234567 3.14159 \u00bd\u00b2 \u2167",
    "na\u00efve cafe\u0301 \u00c6\u00d8\u00c5 \u00df \ufb01", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e \u30ab\u30bf\u30ab\u30ca",
    "\U0001f642\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3f3\ufe0f\u200d\U0001f308", "\u0661\u0662\u0663 \u096a\u096b", "x\u00a0y\u3000z\u2028w\u180ev\u0085u", "a\u0300\u0315b\u1100\u1161\u11a8",
    "the<|endoftext|>end", "<s> a </s>b", "<|im_start|>user\nhi<|im_end|>", "a    b     c  <mask> d <mask>  e",
    "\u2581metaspace \u2581 in text", "https://example.org/?q=a&b=c#frag", "snake_case camelCase HTTPServer ALLCAPS'S can'T",
    "!!!???...---___", "def f(x):\n    return x ** 2\n\n\nclass A:\n\tpass\n", "\x00\x01\x7f", "\u212b \u2126 \ufb03 \u3350",
    "Romeo, Romeo! wherefore art thou Romeo?" * 3, "a" * 100, " " * 70 + "x", "",
]


def train(tokenizer, vocab, **how):
    lines = (HERE / "../tinyshakespeare.txt").read_text()[:300000].splitlines(keepends=True)
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False, **how)
    tokenizer.train_from_iterator(lines + TEXTS * 3, trainer)
    return tokenizer


def byte_level(pre, normalizer=None, special=(), post=None, vocab=700, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    if post:
        t.post_processor = post
    return train(t, vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(special))


def split_bytes(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def neox():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), ["<|endoftext|>", "<|padding|>"],
                   processors.ByteLevel(trim_offsets=True))
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    return t


def qwen():
    t = byte_level(split_bytes(QWEN), normalizers.NFC(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                   processors.ByteLevel(trim_offsets=False))
    t.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return t


def tekken():
    return byte_level(split_bytes(TEKKEN), None, ["<unk>", "<s>", "</s>"], None, ignore_merges=True)


def old_llama3():  # the other way to write a split: what does not match is removed
    return byte_level(split_bytes(QWEN, "removed", True), None, ["<|begin_of_text|>", "<|end_of_text|>"],
                      processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B",
                                                    special_tokens=[("<|begin_of_text|>", 0)]))


def roberta_like():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), None, ["<s>", "</s>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    t.add_tokens([AddedToken("--", rstrip=True, lstrip=True, normalized=False)])
    return t


def digits():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return byte_level(pre, None, ["<|endoftext|>"])


def characters(pre, normalizer, decoder, **model):
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True, **model))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    train(t, 1000, special_tokens=special, limit_alphabet=80, max_token_length=12)
    made = json.loads(t.to_str())
    made["added_tokens"] = [a for a in made["added_tokens"] if a["id"] < 3]
    return Tokenizer.from_str(json.dumps(made))


def pieces(text=True):
    back = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(back + ([decoders.Strip(" ", 1, 0)] if text else []))


def llama2():  # trained in words, used without cutting, as the original
    t = characters(pre_tokenizers.Metaspace(), None, pieces())
    made = json.loads(t.to_str())
    made["pre_tokenizer"] = None
    made["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    return Tokenizer.from_str(json.dumps(made))


def mistral():
    return characters(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None, pieces())


def metaspace():
    return characters(pre_tokenizers.Metaspace(prepend_scheme="always"), None, decoders.Metaspace(prepend_scheme="always"))


def gemma():  # no dummy prefix, merges over words; cut by a text
    return characters(pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "\u2581"), pieces(False))


def write(folder, rows):
    (folder / "expected.json").write_text(json.dumps(rows, separators=(",", ":")))


def sentence_piece(name, **how):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    made = io.BytesIO()
    lines = (HERE / "../tinyshakespeare.txt").read_text()[:200000].splitlines()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=made, minloglevel=2, **how)
    (folder / "tokenizer.model").write_bytes(made.getvalue())
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    texts = [t for t in TEXTS if "\0" not in t]
    write(folder, [{"text": t, "ids": tokenizer.encode(t)} for t in texts])


def main():
    keeps = dict(normalization_rule_name="identity", remove_extra_whitespaces=False, byte_fallback=True)
    sentence_piece("sp_bpe", model_type="bpe", vocab_size=800, split_digits=True, **keeps)
    sentence_piece("sp_unigram", model_type="unigram", vocab_size=400, normalization_rule_name="nfkc")
    for make in (neox, qwen, tekken, old_llama3, roberta_like, digits, llama2, mistral, metaspace, gemma):
        tokenizer = make()
        folder = HERE / make.__name__
        folder.mkdir(exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        rows = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        write(folder, rows)


if __name__ == "__main__":
    main()
