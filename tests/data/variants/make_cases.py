#!/usr/bin/env python3
"""Computes the expected numbers of cases.json anew, with PyPI's torch and transformers.

    python3 make_cases.py            # rewrites cases.json beside it

A new case is a row with name, config, layers, tensors (shapes by name; "*" is a layer), ones (names of tensors
around 1 instead of 0) and ids; this fills in "logits" of the last position, or "vector" (mean of all rows) where
there is a "vector". The library must take the folder as it is: no tensor missing, none of another shape.
"""
import json
import os
import sys
import tempfile

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "e2e"))
NOT_TEXT = ("position_ids", "inv_freq", "pooler", "vision", "visual", "projector")   # nothing here depends on these


def reference(case, folder):
    encoder = "vector" in case
    name = case["config"].get("architectures", [""])[0]
    auto = transformers.AutoModel if encoder else transformers.AutoModelForCausalLM
    if name.endswith("ForConditionalGeneration"):
        auto = getattr(transformers, name)
    # Falcon adds ALiBi twice in "eager"
    model, info = auto.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                       attn_implementation="sdpa" if case["config"].get("alibi") else "eager")
    lacking = [k for k in info["missing_keys"] if not any(x in k for x in NOT_TEXT)]
    assert not lacking, (case["name"], lacking)
    ids = torch.tensor([case["ids"]])
    with torch.no_grad():
        if encoder:
            return model.eval()(ids).last_hidden_state[0].mean(0)
        return model.eval()(ids, use_cache=False).logits[0, -1]


def main():
    from test_variants import write_folder
    path = os.path.join(HERE, "cases.json")
    cases = json.load(open(path, encoding="utf-8"))
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            write_folder(case, folder)
            case["vector" if "vector" in case else "logits"] = [float(f"{x:.6g}") for x in reference(case, folder)]
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":"), sort_keys=True) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
