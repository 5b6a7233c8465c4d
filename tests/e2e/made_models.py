"""Checkpoints made for a test: copies of the tiny ones with another configuration, and models that say what they are told to."""
import json
import shutil
import struct
from pathlib import Path

from conftest import TINY


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


def write_safetensors(path, tensors):
    """tensors: name -> (shape, float32 bytes)."""
    head, at = {}, 0
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(d for _, d in tensors.values()))


def speaker(to, script, vocab=512, **fields):
    """A model that says the ids of 'script', each of them once: every layer adds nothing, a token's row is a unit vector, and
    the output matrix leads from each token to the one after it; from all others, to the first."""
    assert len(set(script)) == len(script)
    changed_copy(to, hidden_size=vocab, num_hidden_layers=1, intermediate_size=16, tie_word_embeddings=False, torch_dtype="float32",
                 rope_scaling=None, **fields)
    zeros = lambda *shape: (list(shape), bytes(4 * shape[0] * (shape[1] if len(shape) > 1 else 1)))  # noqa: E731
    ones = ([vocab], struct.pack("<f", 1) * vocab)
    follows = {a: b for a, b in zip(script, script[1:])}
    rows, out = [], [bytearray(4 * vocab) for _ in range(vocab)]
    for t in range(vocab):
        row = bytearray(4 * vocab)
        struct.pack_into("<f", row, 4 * t, 1)
        rows.append(bytes(row))
        struct.pack_into("<f", out[follows.get(t, script[0])], 4 * t, 1)
    p = "model.layers.0."
    write_safetensors(Path(to) / "model.safetensors", {
        "model.embed_tokens.weight": ([vocab, vocab], b"".join(rows)), "lm_head.weight": ([vocab, vocab], b"".join(map(bytes, out))),
        "model.norm.weight": ones, p + "input_layernorm.weight": ones, p + "post_attention_layernorm.weight": ones,
        p + "self_attn.q_proj.weight": zeros(64, vocab), p + "self_attn.k_proj.weight": zeros(32, vocab),
        p + "self_attn.v_proj.weight": zeros(32, vocab), p + "self_attn.o_proj.weight": zeros(vocab, 64),
        p + "mlp.gate_proj.weight": zeros(16, vocab), p + "mlp.up_proj.weight": zeros(16, vocab), p + "mlp.down_proj.weight": zeros(vocab, 16),
    })
    return str(to)
