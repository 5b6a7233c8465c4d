"""The small checkpoints of DeepSeek-V2 and V3 as GGUF files, with attn_kv_b and, as newer ones have it, with attn_k_b and
attn_v_b, in f32 and rounded: logits are the folder's."""
import json
import os
import shutil
import struct
import subprocess

import pytest

import ggufs

np = pytest.importorskip("numpy")
HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
SOURCES = {n: os.path.join(HERE, "..", "data", "models", n) for n in ("deepseek_v2", "deepseek_v3")}
SOURCE = SOURCES["deepseek_v2"]
CONFIGS = {n: json.load(open(os.path.join(p, "config.json"), encoding="utf-8")) for n, p in SOURCES.items()}
HEADS, NOPE, ROT, V, RANK = 4, 16, 8, 16, 32     # of both
IDS = "1,45,300,7,99,12,500,3"
F32, Q8_0 = 0, 8


def load(model):
    raw = open(os.path.join(SOURCES[model], "model.safetensors"), "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            data = raw[8 + n + a:8 + n + b]
            x = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32) if t["dtype"] == "BF16" \
                else np.frombuffer(data, np.float32)
            out[name] = x.reshape(t["shape"])
    return out


def tensors(apart, model="deepseek_v2"):
    """Under GGUF's names."""
    t, out, config = load(model), {}, CONFIGS[model]
    out["token_embd.weight"] = t["model.embed_tokens.weight"]
    out["output_norm.weight"] = t["model.norm.weight"]
    out["output.weight"] = t["lm_head.weight"]
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm",
             "attn_kv_b": "self_attn.kv_b_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
             "ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj",
             "ffn_down_shexp": "mlp.shared_experts.down_proj", "attn_q_a": "self_attn.q_a_proj",
             "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj"}
    for i in range(config["num_hidden_layers"]):
        hub = f"model.layers.{i}."
        for to, name in names.items():
            if hub + name + ".weight" in t:
                out[f"blk.{i}.{to}.weight"] = t[hub + name + ".weight"]
        if hub + "mlp.gate.e_score_correction_bias" in t:
            out[f"blk.{i}.exp_probs_b.bias"] = t[hub + "mlp.gate.e_score_correction_bias"]
        for part in ("gate", "up", "down"):
            each = [t.get(f"{hub}mlp.experts.{e}.{part}_proj.weight") for e in range(config["n_routed_experts"])]
            if each[0] is not None:
                out[f"blk.{i}.ffn_{part}_exps.weight"] = np.stack(each)
        if apart:
            both = out.pop(f"blk.{i}.attn_kv_b.weight").reshape(HEADS, NOPE + V, RANK)
            out[f"blk.{i}.attn_k_b.weight"] = both[:, :NOPE].transpose(0, 2, 1)
            out[f"blk.{i}.attn_v_b.weight"] = both[:, NOPE:]
    return out


def q8_0(x):
    """Blocks of 32: an f16 scale, then bytes."""
    x = x.reshape(-1, 32)
    d = (np.abs(x).max(1) / 127).astype(np.float16)
    q = np.round(x / np.where(d == 0, 1, d).astype(np.float32)[:, None]).astype(np.int8)
    return b"".join(a.tobytes() + b.tobytes() for a, b in zip(d, q)), d.astype(np.float32)[:, None] * q


def keys(apart, model):
    c = CONFIGS[model]
    text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()
    u32 = lambda k, v: text(k) + struct.pack("<II", 4, v)
    f32 = lambda k, v: text(k) + struct.pack("<If", 6, v)
    strs = lambda k, v: text(k) + struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
    a = "deepseek2."
    key, value = (RANK + ROT, RANK) if apart else (NOPE + ROT, V)
    out = [text("general.architecture") + struct.pack("<I", 8) + text("deepseek2"),
           u32(a + "embedding_length", c["hidden_size"]), u32(a + "block_count", c["num_hidden_layers"]),
           u32(a + "attention.head_count", HEADS), u32(a + "attention.head_count_kv", 1 if apart else HEADS),
           u32(a + "attention.key_length", key), u32(a + "attention.value_length", value),
           u32(a + "attention.kv_lora_rank", RANK), u32(a + "rope.dimension_count", ROT),
           u32(a + "feed_forward_length", c["intermediate_size"]), u32(a + "context_length", c["max_position_embeddings"]),
           f32(a + "attention.layer_norm_rms_epsilon", c["rms_norm_eps"]),
           f32(a + "rope.freq_base", 10000.0), u32(a + "expert_count", c["n_routed_experts"]),
           u32(a + "expert_used_count", c["num_experts_per_tok"]), u32(a + "expert_shared_count", c["n_shared_experts"]),
           u32(a + "expert_feed_forward_length", c["moe_intermediate_size"]), f32(a + "expert_weights_scale", c["routed_scaling_factor"]),
           u32(a + "leading_dense_block_count", c["first_k_dense_replace"]),
           text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
           text("tokenizer.ggml.pre") + struct.pack("<I", 8) + text("gpt-2"),
           strs("tokenizer.ggml.tokens", ["a", "b", "ab"] + [f"t{i}" for i in range(c["vocab_size"] - 3)]),
           strs("tokenizer.ggml.merges", ["a b"])]
    if c["q_lora_rank"]:
        out += [u32(a + "attention.q_lora_rank", c["q_lora_rank"])]
    if model == "deepseek_v3":
        out += [u32(a + "expert_gating_func", 2), text(a + "expert_weights_norm") + struct.pack("<IB", 7, 1),
                u32(a + "expert_group_count", c["n_group"]), u32(a + "expert_group_used_count", c["topk_group"]),
                text(a + "rope.scaling.type") + struct.pack("<I", 8) + text("yarn"), f32(a + "rope.scaling.factor", 4.0),
                u32(a + "rope.scaling.original_context_length", 64), f32(a + "rope.scaling.yarn_log_multiplier", 0.1)]
    if apart:
        out += [u32(a + "attention.key_length_mla", NOPE + ROT), u32(a + "attention.value_length_mla", V)]
    return out


def write(path, named, apart, rounded=(), model="deepseek_v2"):
    """'rounded': endings of the names that are held as Q8_0."""
    info, data, at = b"", b"", 0
    for name, x in named.items():
        quant = name.endswith(tuple(rounded)) if rounded else False
        raw = q8_0(x)[0] if quant else np.ascontiguousarray(x, np.float32).tobytes()
        info += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", x.ndim)
        info += b"".join(struct.pack("<Q", n) for n in reversed(x.shape)) + struct.pack("<IQ", Q8_0 if quant else F32, at)
        data += raw + bytes(-len(raw) % 32)
        at = len(data)
    meta = keys(apart, model)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(named), len(meta)) + b"".join(meta) + info
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def logits(path, dtype="f32", *more):
    p = subprocess.run([FORNAX, "logits", path, "--tokens", IDS, "--positions", "all", "--dtype", dtype, "--json", *more],
                       capture_output=True, timeout=120)
    assert p.returncode == 0, p.stderr.decode()
    return np.array(json.loads(p.stdout)["logits"])


@pytest.mark.parametrize("model", SOURCES)
@pytest.mark.parametrize("apart", [False, True])
def test_gguf_is_the_folder(tmp_path, model, apart):
    path = str(tmp_path / "x.gguf")
    write(path, tensors(apart, model), apart, model=model)
    want = logits(SOURCES[model])
    assert np.abs(logits(path) - want).max() <= 2e-4 * want.std()


@pytest.mark.parametrize("dtype", ["auto", "f32"])
def test_rounded_kv_b(tmp_path, dtype):
    """kv_b in blocks gives what the same numbers in f32 do, though half of it is used across its rows."""
    named = tensors(False)
    name = "attn_kv_b.weight"
    write(str(tmp_path / "q8.gguf"), named, False, rounded=[name])
    plain = {k: q8_0(x)[1].reshape(x.shape).astype(np.float32) if k.endswith(name) else x for k, x in named.items()}
    write(str(tmp_path / "f32.gguf"), plain, False)
    a, b = logits(str(tmp_path / "q8.gguf"), dtype), logits(str(tmp_path / "f32.gguf"), dtype)
    assert (a == b).all()


def test_rounded_k_b_and_v_b(tmp_path):
    """Rows of 16 can't be blocks of 32, so v_b only."""
    named = tensors(True)
    write(str(tmp_path / "q8.gguf"), named, True, rounded=["attn_v_b.weight"])
    plain = {k: q8_0(x)[1].reshape(x.shape).astype(np.float32) if k.endswith("attn_v_b.weight") else x for k, x in named.items()}
    write(str(tmp_path / "f32.gguf"), plain, True)
    assert (logits(str(tmp_path / "q8.gguf"), "auto") == logits(str(tmp_path / "f32.gguf"), "auto")).all()


@pytest.mark.parametrize("drop", ["attn_kv_b", "attn_k_b", "attn_v_b"])
def test_missing_tensor_is_named(tmp_path, drop):
    apart = drop != "attn_kv_b"
    named = {k: x for k, x in tensors(apart).items() if drop not in k}
    write(str(tmp_path / "x.gguf"), named, apart)
    p = subprocess.run([FORNAX, "logits", str(tmp_path / "x.gguf"), "--tokens", IDS], capture_output=True, timeout=60)
    assert p.returncode != 0 and "blk.0." in p.stderr.decode() and "missing" in p.stderr.decode()


ADAPTER = os.path.join(HERE, "..", "data", "lora", "deepseek_v2")


@pytest.mark.parametrize("apart", [False, True])
def test_adapters(tmp_path, apart):
    """On experts, latents and queries; of kv_b where the file has it whole."""
    path, adapter = str(tmp_path / "x.gguf"), ADAPTER
    write(path, tensors(apart), apart)
    if apart:
        p = subprocess.run([FORNAX, "logits", path, "--tokens", IDS, "--lora", ADAPTER], capture_output=True, text=True, timeout=60)
        assert p.returncode == 1 and "kv_b_proj: the model has no such matrix" in p.stderr
        adapter = str(tmp_path / "less")
        shutil.copytree(ADAPTER, adapter)
        kept = {k: v for k, v in ggufs.read_safetensors(ADAPTER + "/adapter_model.safetensors").items() if "kv_b_proj" not in k}
        ggufs.write_safetensors(adapter + "/adapter_model.safetensors", kept)
    want = logits(SOURCE, "f32", "--lora", adapter)
    assert np.abs(logits(path, "f32", "--lora", adapter) - want).max() <= 2e-4 * want.std()
    assert np.abs(logits(SOURCE) - want).max() > 0.1 * want.std()
