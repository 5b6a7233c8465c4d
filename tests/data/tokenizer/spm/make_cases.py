#!/usr/bin/env python3
"""Writes the expected values of test_spm.c with PyPI 'sentencepiece' 0.2.3.

    python3 make_cases.py        # in this folder; rewrites cases.json

The models beside it are small ones trained for test checkpoints; unigram.model has the
library's own nmt_nfkc table of replacements.  Texts are taken from ../make_cases.py.
"""
import ast
import json
import os
import random

import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
EXTRA = ["ＡＢＣ　ｘ①㌔ﬁ", "a   b    c ", "   ", "\u2581x \u2581\u2581y", "<s>a</s><unk>", "<0x41><0x0A>", "ก็ กำ", "x\u00ady\ufeffz"]


def texts():
    tree = ast.parse(open(os.path.join(HERE, "..", "make_cases.py"), encoding="utf-8").read())
    value = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "TEXTS")
    known = eval(compile(ast.Expression(value), "make_cases", "eval"), {})
    rng, out = random.Random(5), [t for t in known if "\0" not in t] + EXTRA
    for _ in range(60):
        out.append("".join(rng.choice(rng.choice(out)[:12] or " ") if rng.random() < 0.5 else rng.choice(["the ", "ing", " a", "é", "\u0301", "한", "  "])
                           for _ in range(rng.randrange(1, 20))))
    return out


def cases(name):
    sp = sentencepiece.SentencePieceProcessor(model_file=os.path.join(HERE, name))
    rng = random.Random(7)
    ids = [[rng.randrange(sp.get_piece_size()) for _ in range(rng.randrange(1, 9))] for _ in range(40)]
    return {"bos": sp.bos_id(), "texts": [{"text": t, "ids": sp.encode(t), "decoded": sp.decode(sp.encode(t))} for t in texts()],
            "pieces": sp.get_piece_size(),
            "decode": [{"ids": i, "text": sp.decode(i)} for i in ids if sp.unk_id() not in i]}


names = sorted(n for n in os.listdir(HERE) if n.endswith(".model"))
with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as f:
    json.dump({n: cases(n) for n in names}, f, ensure_ascii=False, indent=0)
    f.write("\n")
