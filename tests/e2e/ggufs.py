"""GGUF files for tests: a writer, and a hub folder's tensors as the converters lay them out."""
import json
import re
import struct

import numpy as np


def read_safetensors(path):
    """Name to float32 array."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        data = raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        kinds = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
        v = np.frombuffer(data, kinds[t["dtype"]]).reshape(t["shape"])
        out[name] = (v.astype(np.uint32) << 16).view(np.float32) if t["dtype"] == "BF16" else v.astype(np.float32)
    return out


def write_safetensors(path, tensors):
    head, at, data = {}, 0, b""
    for name, v in tensors.items():
        piece = np.ascontiguousarray(v, np.float32).tobytes()
        head[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + len(piece)]}
        at, data = at + len(piece), data + piece
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def _string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def _value(v):
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, _string(v)
    kind, _ = _value(v[0]) if v else (8, b"")
    if kind == 4:
        kind, body = 5, b"".join(struct.pack("<i", x) for x in v)
    else:
        body = b"".join(_value(x)[1] for x in v)
    return 9, struct.pack("<IQ", kind, len(v)) + body


def write_gguf(path, meta, tensors):
    """All tensors as F32."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta))
    for key, v in meta.items():
        kind, body = _value(v)
        out += _string(key) + struct.pack("<I", kind) + body
    at, data = 0, []
    for name, v in tensors.items():
        piece = np.ascontiguousarray(v, np.float32).tobytes()
        out += _string(name) + struct.pack("<I", v.ndim) + b"".join(struct.pack("<Q", d) for d in reversed(v.shape))
        out += struct.pack("<IQ", 0, at)
        data.append(piece + b"\0" * (-len(piece) % 32))
        at += len(data[-1])
    with open(path, "wb") as f:
        f.write(out + b"\0" * (-len(out) % 32) + b"".join(data))


def vocabulary(n):
    """A byte-level vocabulary without merges; what tests use are ids."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in shown]
    tokens = [chr(b) for b in shown] + [chr(256 + i) for i in range(len(rest))]
    tokens += ["!!"] + [f"filler{i}" for i in range(n - len(tokens) - 1)]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens[:n],
            "tokenizer.ggml.token_type": [1] * n, "tokenizer.ggml.merges": ["! !"], "tokenizer.ggml.eos_token_id": 0,
            "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.add_bos_token": False}


# ---- Rows as the converters order them -------------------------------------------------------------


def permute(w, heads):
    """Rows of q and k of architectures whose halves become pairs."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def ungroup(w, heads):
    """q, k and v of each head, one after another, become all of q, of k, of v."""
    return w.reshape(heads, 3, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)


LLAMA = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "model.layers.N.input_layernorm": "blk.N.attn_norm", "model.layers.N.post_attention_layernorm": "blk.N.ffn_norm",
         "model.layers.N.self_attn.q_proj": "blk.N.attn_q", "model.layers.N.self_attn.k_proj": "blk.N.attn_k",
         "model.layers.N.self_attn.v_proj": "blk.N.attn_v", "model.layers.N.self_attn.o_proj": "blk.N.attn_output",
         "model.layers.N.mlp.gate_proj": "blk.N.ffn_gate", "model.layers.N.mlp.up_proj": "blk.N.ffn_up",
         "model.layers.N.mlp.down_proj": "blk.N.ffn_down", "model.layers.N.self_attn.qkv_proj": "blk.N.attn_qkv",
         "model.layers.N.mlp.gate_up_proj": "blk.N.ffn_up", "model.layers.N.block_sparse_moe.router.layer": "blk.N.ffn_gate_inp"}
NEOX = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
        "gpt_neox.layers.N.input_layernorm": "blk.N.attn_norm", "gpt_neox.layers.N.post_attention_layernorm": "blk.N.ffn_norm",
        "gpt_neox.layers.N.attention.query_key_value": "blk.N.attn_qkv", "gpt_neox.layers.N.attention.dense": "blk.N.attn_output",
        "gpt_neox.layers.N.mlp.dense_h_to_4h": "blk.N.ffn_up", "gpt_neox.layers.N.mlp.dense_4h_to_h": "blk.N.ffn_down"}
ARCHS = {  # architecture of config.json: GGUF's, names, whether q and k are permuted, whether q, k and v are grouped
    "LlamaForCausalLM": ("llama", LLAMA, True, False), "GraniteMoeForCausalLM": ("granitemoe", LLAMA, True, False),
    "Phi3ForCausalLM": ("phi3", LLAMA, False, False), "GPTNeoXForCausalLM": ("gptneox", NEOX, False, True),
}


def name_of(config, module):
    """A module's name in GGUF, or None."""
    n = re.search(r"\.(\d+)\.", module)
    found = ARCHS[config["architectures"][0]][1].get(re.sub(r"\.\d+\.", ".N.", module, count=1))
    return found and found.replace(".N.", f".{n.group(1)}." if n else ".N.")


def rows_of(config, name, v):
    """Rows of a matrix of this GGUF name (or of its B) in GGUF's order."""
    _, _, permuted, grouped = ARCHS[config["architectures"][0]]
    heads = config["num_attention_heads"]
    if permuted and ".attn_q." in name:
        return permute(v, heads)
    if permuted and ".attn_k." in name:
        return permute(v, config.get("num_key_value_heads", heads))
    return ungroup(v, heads) if grouped and ".attn_qkv." in name else v


def convert(folder, path):
    """A hub folder as a GGUF file of F32."""
    config = json.load(open(f"{folder}/config.json", encoding="utf-8"))
    arch = ARCHS[config["architectures"][0]][0]
    heads, dim = config["num_attention_heads"], config["hidden_size"]
    keys = {"embedding_length": dim, "block_count": config["num_hidden_layers"], "attention.head_count": heads,
            "attention.head_count_kv": config.get("num_key_value_heads", heads), "feed_forward_length": config["intermediate_size"],
            "context_length": config["max_position_embeddings"], "vocab_size": config["vocab_size"],
            "rope.dimension_count": int(dim // heads * config.get("rotary_pct", 1)),
            "rope.freq_base": float(config.get("rope_theta", 10000.0))}
    if "layer_norm_eps" in config:
        keys.update({"attention.layer_norm_epsilon": config["layer_norm_eps"], "use_parallel_residual": config["use_parallel_residual"]})
    else:
        keys["attention.layer_norm_rms_epsilon"] = config["rms_norm_eps"]
    if "num_local_experts" in config:
        keys.update({"expert_count": config["num_local_experts"], "expert_used_count": config["num_experts_per_tok"],
                     "attention.scale": config["attention_multiplier"], "embedding_scale": config["embedding_multiplier"],
                     "residual_scale": config["residual_multiplier"], "logit_scale": config["logits_scaling"]})
    out = {}
    for name, v in read_safetensors(f"{folder}/model.safetensors").items():
        module, kind = name.rsplit(".", 1)
        n = re.search(r"\.(\d+)\.", name)
        if "block_sparse_moe.input_linear" in name:
            half = v.shape[1] // 2
            out[f"blk.{n.group(1)}.ffn_gate_exps.weight"] = v[:, :half]
            out[f"blk.{n.group(1)}.ffn_up_exps.weight"] = v[:, half:]
        elif "block_sparse_moe.output_linear" in name:
            out[f"blk.{n.group(1)}.ffn_down_exps.weight"] = v
        elif name_of(config, module):
            to = f"{name_of(config, module)}.{kind}"
            out[to] = rows_of(config, to, v)
    write_gguf(path, {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in keys.items()},
                      **vocabulary(config["vocab_size"])}, out)


def convert_adapter(folder, base, path):
    """A PEFT adapter of products and tables (one rank, one alpha) as a GGUF adapter."""
    config = json.load(open(f"{base}/config.json", encoding="utf-8"))
    settings = json.load(open(f"{folder}/adapter_config.json", encoding="utf-8"))
    ends = {".lora_A.weight": "a", ".lora_B.weight": "b", ".lora_embedding_A": "a", ".lora_embedding_B": "b"}
    out = {}
    for name, v in read_safetensors(f"{folder}/adapter_model.safetensors").items():
        for end, which in ends.items():
            if name.endswith(end):
                to = name_of(config, name[len("base_model.model."):-len(end)]) + ".weight"
                v = v.T if end == ".lora_embedding_A" else v
                out[f"{to}.lora_{which}"] = rows_of(config, to, v) if which == "b" else v
    write_gguf(path, {"general.architecture": ARCHS[config["architectures"][0]][0], "general.type": "adapter",
                      "adapter.type": "lora", "adapter.lora.alpha": float(settings["lora_alpha"])}, out)
