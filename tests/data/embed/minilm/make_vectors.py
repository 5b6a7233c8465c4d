#!/usr/bin/env python3
"""Writes vectors.f16, all-MiniLM-L6-v2's vectors of texts.json by PyPI's torch and transformers: the mean of a text's
rows (cut to the model's max_seq_length), of length 1; 384 numbers each.

    python3 make_vectors.py FOLDER       # of the model, as scripts/model minilm prints it
"""
import json
import os
import sys

import numpy
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    folder = sys.argv[1]
    limit = json.load(open(os.path.join(folder, "sentence_bert_config.json"), encoding="utf-8"))["max_seq_length"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    for text in json.load(open(os.path.join(HERE, "texts.json"), encoding="utf-8")):
        text = text if isinstance(text, str) else text["repeat"] * text["times"]
        with torch.no_grad():
            batch = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt", padding=False)
            rows.append(torch.nn.functional.normalize(model(**batch).last_hidden_state[0].mean(0), dim=0).numpy())
    numpy.array(rows).astype("<f2").tofile(os.path.join(HERE, "vectors.f16"))


if __name__ == "__main__":
    main()
