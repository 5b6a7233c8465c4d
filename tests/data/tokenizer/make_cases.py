#!/usr/bin/env python3
"""Writes the expected values of the tokenizer tests: PyPI 'tokenizers' 0.23.3.

    python3 make_cases.py        # in this folder; rewrites */cases.json and components.json

The tokenizer.json files beside it are small ones trained for test checkpoints; those whose cases.json has a
"source" are parts of real ones (what the cases need; ids are the real ones) and stay as they are.
components.json holds tokenizers of one component each: a character model whose
words end in "|", so that the ids show where words were cut.
"""
import json
import os
import random

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = [
    "", " ", "  ", "\n", "\t", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    "  leading and trailing   ", "tabs\tand\nnewlines\r\n\r\n  mixed \n x", "I'm you're he'LL we'Ve it's 'S",
    "1 12 123 1234 12345 1,234.56 ½ Ⅷ ²", "ünïcödé ça va?", "e\u0301 vs \u00e9, A\u030a \u212b", "\u1e9b\u0323 ﬁ ﬀ ① ㌀",
    "日本語のテキスト。中文，标点！한국어 텍스트", "שָׁלוֹם עוֹלָם", "مرحبا بالعالم", "नमस्ते दुनिया", "👍🏽 👩‍👩‍👧‍👦 🇫🇷 ☎️",
    "a\u200bb\u00adc\u2028d\u2029e\u0085f\u00a0g\u3000h\u180ei\ufeff", "\u0000\u0001\u007f\u0080\u009f", "word" * 30,
    "x" * 200, "!?" * 40, "<|im_start|>user\nhi<|im_end|>\n", "<s>a</s> <unk> [CLS] x [SEP] [MASK]",
    "<|endoftext|> <|begin_of_text|>Hi<|eot_id|>", "snake_case camelCase HTTPServer v1.2.3-rc4 a@b.c",
    "def f(x):\n    return x ** 2  # λ\n", "ſ 'ſ K İı ßẞ ς Σ", "\u0301\u0301 \u0323\u0301a", "«guillemets» “quotes” ‘x’ …—–-",
    "a\u0300\u0323\u0301\u0316" * 5, "\ue000\U000f0000\U0010ffff", "€ £ ¥ ₿ ± × ÷ ∑ ∞", "\U0001d400\U0001d7d8 𝒜", "don't  do  not . , ! ?",
]
BYTES = [b"\xff", b"a\xc3", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\xf0\x9f\x98x", b"\xed\xa0\x80", b"\xc0\x80z", b"ok\xf5\x80\x80\x80ok"]


def random_texts(seed, n):
    r = random.Random(seed)
    ranges = [(0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x17f), (0x300, 0x36f), (0x370, 0x3ff), (0x4e00, 0x4e40), (0x3040, 0x30ff),
              (0x1f600, 0x1f64f), (0x2000, 0x206f), (0xac00, 0xac40), (9, 13), (0x590, 0x5ff), (0x660, 0x669), (0x2150, 0x218f)]
    pieces = ["  ", "\n\n", "'s", " the", "123", "<s>", "[SEP]", "<|im_end|>", "<|eot_id|>", "\u2581", "Ġ", "..."]
    out = []
    for _ in range(n):
        s = ""
        for _ in range(r.randrange(1, 12)):
            if r.random() < 0.3:
                s += r.choice(pieces)
            else:
                a, b = r.choice(ranges)
                s += "".join(chr(r.randint(a, b)) for _ in range(r.randrange(1, 6)))
        out.append(s)
    return out


def cases(t, texts, raw=()):
    out = []
    for x in list(texts) + list(raw):
        text = x if isinstance(x, str) else x.decode("utf-8", "replace")
        e = t.encode(text)
        p = t.encode(text, add_special_tokens=False)
        t.encode_special_tokens = True
        o = t.encode(text)
        t.encode_special_tokens = False
        c = {"text": text} if isinstance(x, str) else {"hex": x.hex()}
        c.update(ids=e.ids, plain=p.ids, off=o.ids, decoded=t.decode(e.ids, skip_special_tokens=False),
                 skipped=t.decode(e.ids, skip_special_tokens=True))
        out.append(c)
    return out


def decodes(t, seed, n):
    """Random id lists: partial characters, special tokens in the middle."""
    r = random.Random(seed)
    size = t.get_vocab_size()
    out = []
    for _ in range(n):
        ids = [r.randrange(size) for _ in range(r.randrange(1, 9))]
        out.append({"ids": ids, "decoded": t.decode(ids, skip_special_tokens=False),
                    "skipped": t.decode(ids, skip_special_tokens=True)})
    return out


def write(path, value):
    with open(os.path.join(HERE, path), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def component(**parts):
    """A character-level BPE; the last character of each word carries '|'."""
    chars = sorted((set("".join(TEXTS)) - {"\0"}) | {chr(c) for c in range(0x20, 0x7f)} | {"\u2581"} |
                   {chr(c) for c in list(range(0xa1, 0x144))})
    vocab = {"<unk>": 0}
    for c in chars:
        vocab[c] = len(vocab)
        vocab[c + "|"] = len(vocab)
    j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
         "pre_tokenizer": None, "post_processor": None, "decoder": None,
         "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                   "end_of_word_suffix": "|", "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}
    j.update(parts)
    return j


def components():
    split = lambda p, b, i=False: {"type": "Split", "pattern": p, "behavior": b, "invert": i}
    out = {}
    for b in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for i in (False, True):
            out[f"split {b} {i}"] = {"pre_tokenizer": split({"Regex": "[aeiou ]|\\d{2}"}, b, i)}
        out[f"split string {b}"] = {"pre_tokenizer": split({"String": "a"}, b)}
        out[f"punctuation {b}"] = {"pre_tokenizer": {"type": "Punctuation", "behavior": b}}
    for p in ("\\s+|\\w+", "[^\\s&&[^\\n]]+", "[\\p{L}&&[^a-m]]+", "\\p{N}{1,3}+", "\\p{N}{2}?x?", "(?i:THE|'S)\\b", "\\S\\W", "$", "(?<=o) ",
              "[[:space:][:digit:]]", "\\h+", "x{,2}o", "[^\\W\\d]+", "\\p{^L}+", "\\p{Letter}+", "(?m:o.)", "\\bt", "\\u0061|\\x{62}",
              "[\\w&&\\D]+|[a[bc]]", "\\p{L}++|\\s?+", "[]a-]", "(?:ab|a)(?=b|\\s)", "^.", "\\n$"):
        out["regex " + p] = {"pre_tokenizer": split({"Regex": p}, "Isolated")}
    simple = {"digits": {"type": "Digits", "individual_digits": True}, "numbers": {"type": "Digits", "individual_digits": False},
              "whitespace": {"type": "Whitespace"}, "blanks": {"type": "WhitespaceSplit"}, "bert": {"type": "BertPreTokenizer"},
              "delimiter": {"type": "CharDelimiterSplit", "delimiter": "o"},
              "length": {"type": "FixedLength", "length": 3},
              "byte level": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
              "byte level only": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}}
    for k, v in simple.items():
        out[k] = {"pre_tokenizer": v}
    out["bytes then split"] = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [simple["byte level"], split({"String": "Ġ"}, "Removed")]}}
    for s in ("always", "first", "never"):
        for sp in (True, False):
            out[f"metaspace {s} {sp}"] = {
                "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": s, "split": sp},
                "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": s, "split": sp},
                "added_tokens": [{"id": 9999, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
                                  "normalized": False, "special": True}]}
    norms = {"nfc": {"type": "NFC"}, "nfd": {"type": "NFD"}, "nfkc": {"type": "NFKC"}, "nfkd": {"type": "NFKD"},
             "lowercase": {"type": "Lowercase"}, "strip": {"type": "Strip", "strip_left": True, "strip_right": False},
             "strip both": {"type": "Strip", "strip_left": True, "strip_right": True}, "accents": {"type": "StripAccents"},
             "nmt": {"type": "Nmt"}, "replace": {"type": "Replace", "pattern": {"Regex": " {2,}|[xy]"}, "content": "zz"},
             "replace string": {"type": "Replace", "pattern": {"String": "o"}, "content": ""},
             "prepend": {"type": "Prepend", "prepend": "<>"}, "bytes": {"type": "ByteLevel"},
             "bert norm": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
             "bert cased": {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False}}
    for k, v in norms.items():
        out["norm " + k] = {"normalizer": v}
    out["norm sequence"] = {"normalizer": {"type": "Sequence", "normalizers": [norms["strip both"], norms["nfkd"], norms["accents"], norms["lowercase"]]}}

    def added(content, **kw):
        return dict({"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}, **kw)
    out["added"] = {"normalizer": norms["lowercase"], "added_tokens": [
        added("<s>", special=True), added("[SEP]", special=True, lstrip=True, rstrip=True), added("The", normalized=True),
        added("quick", single_word=True), added("x" * 7), added("x" * 3), added("  "), added("\n", rstrip=True), added("o", single_word=True),
        added("HE", normalized=True, special=True), added("é")]}
    out["template"] = {"added_tokens": [added("<s>", special=True), added("</s>", special=True)], "post_processor": {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [6, 7], "tokens": ["</s>", "x"]}}}}
    out["roberta"] = {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False}}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 1}
    decs = {"strip tokens": dict(strip, stop=0), "fused strip": {"type": "Sequence", "decoders": [{"type": "Fuse"}, strip]},
            "replaced": {"type": "Replace", "pattern": {"Regex": "[|o]+"}, "content": "."}, "wordpiece": {"type": "WordPiece", "prefix": "a", "cleanup": True},
            "byte level decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}
    for k, v in decs.items():
        out["decoder " + k] = {"decoder": v}
    return {k: component(**v) for k, v in out.items()}


def main():
    for name in sorted(os.listdir(HERE)):
        path = os.path.join(HERE, name, "tokenizer.json")
        if os.path.exists(path) and "source" not in json.load(open(os.path.join(HERE, name, "cases.json"), encoding="utf-8")):
            t = Tokenizer.from_file(path)
            write(name + "/cases.json", {"cases": cases(t, TEXTS + random_texts(name, 40), BYTES), "decode": decodes(t, name, 40)})
    rows = []
    for name, j in components().items():
        t = Tokenizer.from_str(json.dumps(j))
        model = j.pop("model")
        rows.append({"name": name, "tokenizer": j, "cases": [
            {k: v for k, v in c.items() if k in ("text", "ids", "off", "decoded") and not (k == "off" and v == c["ids"])}
            for c in cases(t, [TEXTS[k] for k in (1, 7, 8, 9, 10, 11, 13, 19, 20, 25, 27, 31, 36)])]})
    write("components.json", {"model": model, "components": rows})


main()
