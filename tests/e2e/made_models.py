"""Checkpoints made for a test: copies of the tiny ones with another configuration, and models that say what they are told to."""
import json
import shutil
from pathlib import Path

import numpy as np

from conftest import TINY
from ggufs import write_safetensors


def changed_copy(to, model=TINY, file="config.json", **fields):
    """A copy of a tiny checkpoint whose configuration has other values; its weights are the same."""
    shutil.copytree(model, to)
    change(to, file, **fields)
    return str(to)


def change(folder, file="config.json", **fields):
    path = Path(folder) / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def long_copy(to, context=200000):
    """The tiny Llama with room for long prompts: its rotary frequencies are changed no further."""
    return changed_copy(to, max_position_embeddings=context, rope_scaling=None)


def byte_ids(data):
    """Ids of the tokens that stand for these single bytes in the tiny Llama's vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    letters.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)})
    vocab = json.loads((Path(TINY) / "tokenizer.json").read_text())["model"]["vocab"]
    return [vocab[letters[b]] for b in data]


def speaker(to, script, vocab=512, **fields):
    """A model that says the ids of 'script', each of them once: every layer adds nothing, a token's row is a unit vector, and
    the output matrix leads from each token to the one after it; from all others, to the first."""
    assert len(set(script)) == len(script)
    changed_copy(to, hidden_size=vocab, num_hidden_layers=1, intermediate_size=16, tie_word_embeddings=False, torch_dtype="float32",
                 rope_scaling=None, **fields)
    follows = dict(zip(script, script[1:]))
    out = np.zeros((vocab, vocab))
    for t in range(vocab):
        out[follows.get(t, script[0]), t] = 1
    shapes = {"self_attn.q_proj": (64, vocab), "self_attn.k_proj": (32, vocab), "self_attn.v_proj": (32, vocab), "self_attn.o_proj": (vocab, 64),
              "mlp.gate_proj": (16, vocab), "mlp.up_proj": (16, vocab), "mlp.down_proj": (vocab, 16)}
    norms = ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm")
    write_safetensors(Path(to) / "model.safetensors", {
        "model.embed_tokens.weight": np.eye(vocab), "lm_head.weight": out,
        **{f"model.layers.0.{name}.weight": np.zeros(shape) for name, shape in shapes.items()},
        **{f"{name}.weight": np.ones(vocab) for name in norms},
    })
    return str(to)
