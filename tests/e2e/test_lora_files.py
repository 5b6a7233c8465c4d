"""LoRA adapters across formats: PEFT's on GGUF files, GGUF's on both, against PEFT's on the hub form."""
import json
import os
import shutil
import subprocess

import numpy as np
import pytest

import ggufs
from conftest import FORNAX, ROOT, Server

MODELS = str(ROOT / "tests/data/models")
LORA = str(ROOT / "tests/data/lora")
PLAIN = MODELS + "/lora_llama3/adapter"
IDS = [(k * 37 + 3) % 400 for k in range(40)]
CASES = [("lora_llama3", PLAIN), ("lora_llama3", LORA + "/wide"), ("granitemoe", LORA + "/granitemoe"),
         ("gpt_neox", LORA + "/gpt_neox"), ("phi3_longrope", LORA + "/phi3")]


def rows(model, lora, dtype="f32"):
    p = subprocess.run([FORNAX, "logits", model, "--tokens", ",".join(map(str, IDS)), "--positions", "all", "--json",
                        "--dtype", dtype, *(["--lora", lora] if lora else [])], capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stderr
    return np.array(json.loads(p.stdout)["logits"])


def off(a, b):
    return np.abs(a - b).max() / b.std()


def rms(x):
    return np.sqrt((x * x).mean())


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Of each model: the hub folder without scaling of the rotation, and as a GGUF file."""
    top = tmp_path_factory.mktemp("bases")
    out = {}
    for name in {base for base, _ in CASES}:
        shutil.copytree(f"{MODELS}/{name}", top / name)
        path = top / name / "config.json"
        config = json.load(open(path, encoding="utf-8"))
        json.dump({**config, "rope_scaling": None}, open(path, "w", encoding="utf-8"))
        ggufs.convert(top / name, top / f"{name}.gguf")
        out[name] = str(top / name), str(top / f"{name}.gguf")
        assert off(rows(out[name][1], None), rows(out[name][0], None)) < 1e-4
    return out


@pytest.mark.parametrize("base,adapter", CASES)
def test_peft_on_gguf(bases, base, adapter):
    hub, gguf = bases[base]
    want = rows(hub, adapter)
    assert off(rows(gguf, adapter), want) < 1e-4
    assert off(rows(hub, None), want) > 0.1


@pytest.mark.parametrize("base,adapter", CASES)
def test_peft_on_quantized_gguf(bases, base, adapter, tmp_path):
    hub, gguf = bases[base]
    small = str(tmp_path / "q8.gguf")
    assert subprocess.run([FORNAX, "quantize", gguf, small, "--type", "q8_0"], capture_output=True).returncode == 0
    want, bare = rows(hub, adapter), rows(hub, None)
    for dtype, most in (("f32", 0.06), ("auto", 0.12)):          # exact mode; activations in int8 too
        assert rms(rows(small, adapter, dtype) - want) < most * want.std()
        assert rms(rows(small, adapter, dtype) - want) < 0.3 * rms(bare - want)


@pytest.mark.parametrize("base,adapter", [c for c in CASES if c[1] != LORA + "/wide" and c[0] != "granitemoe"])
def test_gguf_adapters(bases, base, adapter, tmp_path):
    hub, gguf = bases[base]
    path = str(tmp_path / "adapter.gguf")
    ggufs.convert_adapter(adapter, hub, path)
    want = rows(hub, adapter)
    assert off(rows(gguf, path), want) < 1e-4
    assert off(rows(hub, path), want) < 1e-4
    assert off(rows(gguf, path + ":0.5"), want) > 1e-2


def plain_wide(folder):
    """Tables and output, with one rank and alpha."""
    settings = json.load(open(LORA + "/wide/adapter_config.json", encoding="utf-8"))
    keep = {k: v for k, v in ggufs.read_safetensors(LORA + "/wide/adapter_model.safetensors").items()
            if ("lm_head" in k or "embed_tokens" in k) and "base_layer" not in k}
    os.makedirs(folder)
    ggufs.write_safetensors(f"{folder}/adapter_model.safetensors", keep)
    json.dump({**settings, "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {}},
              open(f"{folder}/adapter_config.json", "w", encoding="utf-8"))
    return str(folder)


def test_gguf_adapters_of_tables(bases, tmp_path):
    hub, gguf = bases["lora_llama3"]
    adapter, path = plain_wide(tmp_path / "peft"), str(tmp_path / "adapter.gguf")
    ggufs.convert_adapter(adapter, hub, path)
    want = rows(hub, adapter)
    assert off(rows(gguf, path), want) < 1e-4 and off(rows(hub, path), want) < 1e-4
    assert off(rows(hub, None), want) > 0.1


def expert_pairs(e, name, tensors, rank, experts):
    """A and B of expert e of a stacked parameter's pair."""
    a, b = tensors[name + ".lora_A.weight"], tensors[name + ".lora_B.weight"]
    return a[e * rank:(e + 1) * rank], b.reshape(b.shape[0], rank, experts)[:, :, e]


def test_gguf_adapters_of_experts(bases, tmp_path):
    hub, gguf = bases["granitemoe"]
    tensors = ggufs.read_safetensors(LORA + "/granitemoe/adapter_model.safetensors")
    config = json.load(open(hub + "/config.json", encoding="utf-8"))
    experts, ffn, out = config["num_local_experts"], config["intermediate_size"], {}
    for name, v in tensors.items():
        if "experts" not in name:
            to = ggufs.name_of(config, name[len("base_model.model."):].split(".lora_")[0]) + ".weight"
            which = "a" if "lora_A" in name else "b"
            out[f"{to}.lora_{which}"] = ggufs.rows_of(config, to, v) if which == "b" else v
    for n in range(config["num_hidden_layers"]):
        top = f"base_model.model.model.layers.{n}.block_sparse_moe.experts"
        both = [expert_pairs(e, top + ".base_layer", tensors, 2, experts) for e in range(experts)]
        down = [expert_pairs(e, top, tensors, 2, experts) for e in range(experts)]
        for role, pairs, part in (("gate", both, slice(0, ffn)), ("up", both, slice(ffn, None)), ("down", down, slice(None))):
            out[f"blk.{n}.ffn_{role}_exps.weight.lora_a"] = np.stack([a for a, _ in pairs])
            out[f"blk.{n}.ffn_{role}_exps.weight.lora_b"] = np.stack([b[part] for _, b in pairs])
    path = str(tmp_path / "adapter.gguf")
    ggufs.write_gguf(path, {"general.architecture": "granitemoe", "general.type": "adapter", "adapter.type": "lora",
                            "adapter.lora.alpha": 4.0}, out)
    want = rows(hub, LORA + "/granitemoe")
    assert off(rows(gguf, path), want) < 1e-4 and off(rows(hub, path), want) < 1e-4


def test_an_adapter_of_each_expert(tmp_path):
    """Pairs of each expert's modules, as classes with a list of experts have them, equal those of stacked parameters."""
    base, folder = MODELS + "/deepseek_v2", tmp_path / "each"
    tensors = ggufs.read_safetensors(LORA + "/deepseek_v2/adapter_model.safetensors")
    config = json.load(open(base + "/config.json", encoding="utf-8"))
    experts, ffn = config["n_routed_experts"], config["moe_intermediate_size"]
    out = {k: v for k, v in tensors.items() if "experts" not in k}
    for n in range(config["first_k_dense_replace"], config["num_hidden_layers"]):
        top = f"base_model.model.model.layers.{n}.mlp.experts"
        for e in range(experts):
            a, b = expert_pairs(e, top + ".base_layer", tensors, 2, experts)
            pairs = {"gate": (a, b[:ffn]), "up": (a, b[ffn:]), "down": expert_pairs(e, top, tensors, 3, experts)}
            for role, (x, y) in pairs.items():
                out[f"{top}.{e}.{role}_proj.lora_A.weight"] = x
                out[f"{top}.{e}.{role}_proj.lora_B.weight"] = y
    os.makedirs(folder)
    ggufs.write_safetensors(folder / "adapter_model.safetensors", out)
    settings = json.load(open(LORA + "/deepseek_v2/adapter_config.json", encoding="utf-8"))
    json.dump({**settings, "target_parameters": None, "rank_pattern": {r"experts\.\d+\.down_proj": 3}},
              open(folder / "adapter_config.json", "w", encoding="utf-8"))
    assert off(rows(base, str(folder)), rows(base, LORA + "/deepseek_v2")) < 1e-5


def test_parameters_of_early_peft(tmp_path):
    """[experts, out, in] taken for [experts, in, out]: A and B have changed places."""
    folder = tmp_path / "early"
    tensors = ggufs.read_safetensors(LORA + "/granitemoe/adapter_model.safetensors")
    out, experts = dict(tensors), 4
    for name in tensors:
        if not name.endswith("experts.base_layer.lora_A.weight"):
            continue
        a, b = tensors[name], tensors[name.replace("lora_A", "lora_B")]
        rank = a.shape[0] // experts
        pairs = [expert_pairs(e, name[:-len(".lora_A.weight")], tensors, rank, experts) for e in range(experts)]
        out[name] = np.concatenate([y.T for _, y in pairs])
        out[name.replace("lora_A", "lora_B")] = np.stack([x.T for x, _ in pairs], axis=-1).reshape(a.shape[1], -1)
    shutil.copytree(LORA + "/granitemoe", folder)
    ggufs.write_safetensors(folder / "adapter_model.safetensors", out)
    assert off(rows(MODELS + "/granitemoe", str(folder)), rows(MODELS + "/granitemoe", LORA + "/granitemoe")) < 1e-5


def test_peer_agrees(bases, tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    hub, gguf = bases["lora_llama3"]
    path = str(tmp_path / "adapter.gguf")
    ggufs.convert_adapter(PLAIN, hub, path)
    peer = llama_cpp.Llama(gguf, lora_path=path, logits_all=True, verbose=False, n_ctx=256)
    peer.eval(IDS)
    assert off(np.array(peer.scores[:len(IDS)]), rows(gguf, path)) < 2e-2


def test_mixed_in_one_batch_on_quantized_gguf(bases, tmp_path, background):
    """Alone and together are the same, of experts in int8 too."""
    _, gguf = bases["granitemoe"]
    small = str(tmp_path / "q8.gguf")
    assert subprocess.run([FORNAX, "quantize", gguf, small, "--type", "q8_0"], capture_output=True).returncode == 0
    bare = Server(small, "--name", "base")
    s = Server(small, "--name", "base", "--lora", f"moe={LORA}/granitemoe", "--lora", f"half={LORA}/granitemoe:0.5",
               "--no-prefix-cache")
    try:
        def answer(model, n, server=s):
            status, a = server.post("/v1/completions", {"model": model, "prompt": IDS[:n], "max_tokens": 8, "temperature": 0,
                                                   "ignore_eos": True, "logprobs": 2})
            assert status == 200, a
            return a["choices"][0]["logprobs"]

        jobs = [(m, n) for n in (3, 20, 40) for m in ("base", "moe", "half")]
        alone = [answer(*job) for job in jobs]
        together = [None] * len(jobs)

        def run(i):
            together[i] = answer(*jobs[i])

        for t in [background(run, i) for i in range(len(jobs))]:
            t.join(120)
        assert together == alone and alone[0] != alone[1] != alone[2]
        for (model, n), got in zip(jobs, alone):
            assert model != "base" or answer(model, n, bare) == got          # room for adapters changes nothing
    finally:
        bare.end()
        s.end()


@pytest.mark.parametrize("change,says", [
    ({"general.type": "model"}, "general.type"), ({"adapter.type": "control_vector"}, "adapter.type"),
    ({"general.architecture": "qwen2"}, "general.architecture"), ({"adapter.lora.alpha": "x"}, "adapter.lora.alpha"),
    ({"adapter.alora.invocation_tokens": [1, 2]}, "alora"), ({"adapter.lora.alpha": float("inf")}, "alpha"),
    ({"adapter.lora.alpha": float("nan")}, "alpha"),
])
def test_metadata_faults(bases, tmp_path, change, says):
    hub, gguf = bases["lora_llama3"]
    meta = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0, **change}
    out = {"blk.0.attn_q.weight.lora_a": np.ones((2, 64)), "blk.0.attn_q.weight.lora_b": np.ones((64, 2))}
    ggufs.write_gguf(tmp_path / "a.gguf", meta, out)
    p = subprocess.run([FORNAX, "logits", gguf, "--tokens", "1", "--lora", str(tmp_path / "a.gguf")], capture_output=True, text=True)
    assert p.returncode == 1 and says in p.stderr and "a.gguf" in p.stderr, p.stderr


@pytest.mark.parametrize("tensors,says", [
    ({"blk.0.attn_q.weight.lora_a": (2, 64)}, "both"), ({"blk.0.attn_q.weight.lora_a": (2, 64), "blk.0.attn_q.weight.lora_b": (64, 3)}, "rank"),
    ({"blk.0.attn_q.weight.lora_a": (2, 32), "blk.0.attn_q.weight.lora_b": (64, 2)}, "64 columns"),
    ({"blk.0.attn_q.weight.lora_a": (2, 64), "blk.0.attn_q.weight.lora_b": (32, 2)}, "64 rows"),
    ({"blk.9.attn_q.weight.lora_a": (2, 64), "blk.9.attn_q.weight.lora_b": (64, 2)}, "no such matrix"),
    ({"blk.0.attn_norm.weight.lora_a": (2, 64), "blk.0.attn_norm.weight.lora_b": (64, 2)}, "no such matrix"),
    ({"token_embd.weight.lora_a": (2, 512), "token_embd.weight.lora_b": (64, 2)}, "rank"),
    ({"token_embd.weight.lora_a": (511, 2), "token_embd.weight.lora_b": (64, 2)}, "table of 512 rows"),
    ({"blk.0.ffn_gate_exps.weight.lora_a": (4, 2, 64), "blk.0.ffn_gate_exps.weight.lora_b": (4, 96, 2)}, "no such matrix"),
    ({"blk.0.attn_q.weight.lora_a": (2, 2, 64), "blk.0.attn_q.weight.lora_b": (2, 64, 2)}, "axes"),
    ({"blk.0.attn_q.weight": (64, 64)}, "lora_a"), ({}, "no matrices"),
    ({"blk.0.attn_q.weight.lora_a": (600, 64), "blk.0.attn_q.weight.lora_b": (64, 600)}, "rank"),
])
def test_tensor_faults(bases, tmp_path, tensors, says):
    hub, gguf = bases["lora_llama3"]
    meta = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    ggufs.write_gguf(tmp_path / "a.gguf", meta, {k: np.ones(shape) for k, shape in tensors.items()})
    for base in (hub, gguf):
        p = subprocess.run([FORNAX, "logits", base, "--tokens", "1", "--lora", str(tmp_path / "a.gguf")], capture_output=True, text=True)
        assert p.returncode == 1 and says in p.stderr and "a.gguf" in p.stderr, p.stderr


# ---- Faults of PEFT folders -----------------------------------------------------------------------------

Q = "base_model.model.model.layers.0.self_attn.q_proj"
GOOD = {Q + ".lora_A.weight": (8, 64), Q + ".lora_B.weight": (64, 8)}
SETTINGS = {"peft_type": "LORA", "r": 8, "lora_alpha": 16}


def peft(folder, tensors, settings):
    os.makedirs(folder)
    if settings is not None:
        text = settings if isinstance(settings, str) else json.dumps(settings)
        (folder / "adapter_config.json").write_text(text, encoding="utf-8")
    if tensors is not None:
        ggufs.write_safetensors(folder / "adapter_model.safetensors", {k: np.full(s, 0.01, np.float32) for k, s in tensors.items()})
    return str(folder)


def moved(name, *shape, **more):
    return {**{k: v for k, v in GOOD.items() if k != name}, name: shape, **more}


@pytest.mark.parametrize("tensors,settings,says", [
    # files
    (GOOD, None, "adapter_config.json"), (None, SETTINGS, "adapter_model.safetensors"), (GOOD, "[]", "object"), (GOOD, "{", "line 1"),
    (GOOD, '{"r": 8, "r": 8}', "duplicate"), ({}, SETTINGS, "no matrices"),
    # settings
    (GOOD, {**SETTINGS, "peft_type": "LOHA"}, "peft_type"), (GOOD, {**SETTINGS, "r": 0}, "expected r"),
    (GOOD, {**SETTINGS, "r": -8}, "expected r"), (GOOD, {**SETTINGS, "r": 8.5}, "expected r"), (GOOD, {**SETTINGS, "r": None}, "expected r"),
    (GOOD, {**SETTINGS, "r": 4}, "expected rank 4, found 8"), (GOOD, {**SETTINGS, "r": 100000}, "rank"),
    (GOOD, {**SETTINGS, "lora_alpha": "16"}, "lora_alpha"), (GOOD, {**SETTINGS, "lora_alpha": 1e300}, "alpha"),
    (GOOD, {**SETTINGS, "rank_pattern": {"q_proj": 4}}, "expected rank 4, found 8"),
    (GOOD, {**SETTINGS, "rank_pattern": {"q_proj": 0}}, "rank"), (GOOD, {**SETTINGS, "rank_pattern": {"q_proj": "x"}}, "rank_pattern"),
    (GOOD, {**SETTINGS, "rank_pattern": {"q_(proj": 8}}, "pattern"), (GOOD, {**SETTINGS, "alpha_pattern": {"q_proj": 1e300}}, "alpha"),
    (GOOD, {**SETTINGS, "use_dora": True}, "use_dora"), (GOOD, {**SETTINGS, "bias": "all"}, "bias"),
    (GOOD, {**SETTINGS, "bias": "lora_only"}, "bias"), (GOOD, {**SETTINGS, "lora_bias": True}, "lora_bias"),
    (GOOD, {**SETTINGS, "modules_to_save": ["lm_head"]}, "modules_to_save"),
    (GOOD, {**SETTINGS, "trainable_token_indices": [1]}, "trainable_token_indices"),
    (GOOD, {**SETTINGS, "layer_replication": [[0, 1]]}, "layer_replication"), (GOOD, {**SETTINGS, "init_lora_weights": "pissa_niter_4"}, "init_lora_weights"),
    (GOOD, {**SETTINGS, "ensure_weight_tying": True}, "ensure_weight_tying"),
    # tensors
    ({Q + ".lora_A.weight": (8, 64)}, SETTINGS, "must both be there"), (moved(Q + ".lora_A.weight", 8, 63), SETTINGS, "expected 64 columns"),
    (moved(Q + ".lora_B.weight", 63, 8), SETTINGS, "expected 64 rows"), (moved(Q + ".lora_B.weight", 64, 7), SETTINGS, "rank"),
    (moved(Q + ".lora_A.weight", 8, 64, 1), SETTINGS, "axes"), (moved(Q + ".lora_A.weight", 512), SETTINGS, "axes"),
    (moved(Q + ".lora_magnitude_vector", 64), SETTINGS, "lora_magnitude_vector"), (moved(Q + ".lora_B.bias", 64), SETTINGS, "lora_B.bias"),
    ({k.replace("layers.0", "layers.7"): v for k, v in GOOD.items()}, SETTINGS, "layers.7.self_attn.q_proj: the model has no such matrix"),
    ({k.replace("q_proj", "c_attn"): v for k, v in GOOD.items()}, SETTINGS, "no such matrix"),
    ({k.replace("self_attn.q_proj", "input_layernorm"): v for k, v in GOOD.items()}, SETTINGS, "no such matrix"),
    ({**GOOD, "base_model.model.lm_head.base_layer.weight": (512, 64)}, SETTINGS, "differs from the model"),
    ({**GOOD, "base_model.model.lm_head.base_layer.weight": (513, 64)}, SETTINGS, "takes the place"),
    ({**GOOD, "base_model.model.lm_head.weight": (512, 64)}, SETTINGS, "lm_head.weight"),
    ({**GOOD, **{k.replace("model.model.model", "model.model"): v for k, v in GOOD.items()}}, SETTINGS, "changed twice"),
    ({"base_model.model.model.embed_tokens.lora_embedding_A": (8, 500), "base_model.model.model.embed_tokens.lora_embedding_B": (64, 8)},
     SETTINGS, "table of 512 rows"),
    ({"base_model.model.model.embed_tokens.lora_A.weight": (8, 64), "base_model.model.model.embed_tokens.lora_B.weight": (512, 8)},
     SETTINGS, "no such matrix"),
    ({"base_model.model.model.layers.0.mlp.experts.lora_A.weight": (8, 64), "base_model.model.model.layers.0.mlp.experts.lora_B.weight": (64, 8)},
     {**SETTINGS, "target_parameters": ["mlp.experts.down_proj"]}, "experts"),
    ({"base_model.model.model.layers.0.mlp.experts.base_layer.lora_A.weight": (8, 64),
      "base_model.model.model.layers.0.mlp.experts.base_layer.lora_B.weight": (64, 8)},
     {**SETTINGS, "target_parameters": ["mlp.experts.down_proj"]}, "target_parameters"),
])
def test_faults_of_peft_folders(tmp_path, tensors, settings, says):
    folder = peft(tmp_path / "faulty", tensors, settings)
    p = subprocess.run([FORNAX, "logits", MODELS + "/lora_llama3", "--tokens", "1", "--lora", folder], capture_output=True, text=True)
    assert p.returncode == 1 and says in p.stderr and folder in p.stderr, p.stderr


@pytest.mark.parametrize("part,shapes,says", [
    ("gate_up_proj", [(7, 64), (128, 8)], "experts"), ("gate_up_proj", [(8, 63), (128, 8)], "experts"), ("gate_up_proj", [(8, 64), (127, 8)], "experts"),
    ("down_proj", [(8, 64), (64, 7)], "experts"), ("router", [(2, 64), (4, 2)], "no such matrix"),
])
def test_faults_of_experts(tmp_path, part, shapes, says):
    top = "base_model.model.model.layers.0.mlp.experts"
    tensors = {f"{top}.lora_A.weight": shapes[0], f"{top}.lora_B.weight": shapes[1]}
    folder = peft(tmp_path / "faulty", tensors, {**SETTINGS, "r": 2, "target_parameters": [f"mlp.experts.{part}"]})
    p = subprocess.run([FORNAX, "logits", MODELS + "/gpt_oss", "--tokens", "1", "--lora", folder], capture_output=True, text=True)
    assert p.returncode == 1 and says in p.stderr and folder in p.stderr, p.stderr


def test_settings_that_change_nothing_are_taken(tmp_path):
    more = {"use_dora": False, "bias": "none", "modules_to_save": None, "rank_pattern": {}, "target_modules": ["q_proj"], "unknown": None,
            "fan_in_fan_out": True, "lora_dropout": 0.1, "init_lora_weights": "gaussian"}
    assert rows(MODELS + "/lora_llama3", peft(tmp_path / "good", GOOD, {**SETTINGS, **more})).shape[0] == len(IDS)


@pytest.mark.parametrize("front", ["", "base_model.model.", "base_model.model.model.language_model.", "base_model.model.language_model.model."])
def test_fronts_of_names(tmp_path, front):
    want = rows(MODELS + "/lora_llama3", peft(tmp_path / "good", GOOD, SETTINGS))
    renamed = {k.replace("base_model.model.model.", front or "model."): v for k, v in GOOD.items()}
    assert (rows(MODELS + "/lora_llama3", peft(tmp_path / "other", renamed, SETTINGS)) == want).all()


def test_huge_numbers_dont_break_a_run(tmp_path):
    """Logits that overflow are the adapter's affair; the run goes on, and so does the base."""
    folder = peft(tmp_path / "huge", GOOD, {**SETTINGS, "lora_alpha": 1e30})
    s = Server(MODELS + "/lora_llama3", "--name", "base", "--lora", f"huge={folder}")
    try:
        body = {"prompt": IDS, "max_tokens": 4, "ignore_eos": True}
        want = s.post("/v1/completions", {**body, "model": "base", "temperature": 0})[1]["choices"][0]["text"]
        for temperature in (0, 1):
            s.post("/v1/completions", {**body, "model": "huge", "temperature": temperature})
        assert s.alive() and s.post("/v1/completions", {**body, "model": "base", "temperature": 0})[1]["choices"][0]["text"] == want
    finally:
        s.end()
