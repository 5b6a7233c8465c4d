"""LoRA adapters over HTTP and on the command line: chosen by name, loaded and unloaded while running."""
import array
import json
import os
import shutil
import struct
import subprocess

import pytest

from conftest import FORNAX, ROOT

BASE = str(ROOT / "tests/data/models/lora_llama3")
ADAPTER = BASE + "/adapter"
IDS = [(k * 37 + 3) % 400 for k in range(80)]


def tensors(path):
    """Header and data of a safetensors file."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])


def make_adapter(folder, factor=1.0, config=None):
    """A copy of the test's adapter whose lora_B is multiplied: other content, other answers."""
    os.makedirs(folder, exist_ok=True)
    header, data = tensors(ADAPTER + "/adapter_model.safetensors")
    for name, t in header.items():
        if name.endswith("lora_B.weight"):
            assert t["dtype"] == "BF16"
            begin, end = t["data_offsets"]
            bits = array.array("I", (x << 16 for x in array.array("H", bytes(data[begin:end]))))
            numbers = array.array("f", (x * factor for x in array.array("f", bits.tobytes())))
            data[begin:end] = array.array("H", (x >> 16 for x in array.array("I", numbers.tobytes()))).tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/adapter_model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    settings = json.load(open(ADAPTER + "/adapter_config.json", encoding="utf-8"))
    json.dump({**settings, **(config or {})}, open(f"{folder}/adapter_config.json", "w", encoding="utf-8"))
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    """A folder of adapters: two of other content, and what isn't one."""
    top = tmp_path / "adapters"
    make_adapter(top / "one")
    make_adapter(top / "two", 3.0)
    make_adapter(tmp_path / "outside", 2.0)
    os.symlink(tmp_path / "outside", top / "link")
    os.makedirs(top / "linked")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        os.symlink(tmp_path / "outside" / name, top / "linked" / name)
    os.makedirs(top / "empty")
    return top


def start(serve, folder, *args):
    return serve(BASE, "--name", "base", "--dtype", "f32", "--lora-dir", str(folder), *args)


def complete(s, model, ids=None, **more):
    body = {"model": model, "prompt": ids or IDS, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "logprobs": 2}
    status, answer = s.post("/v1/completions", {**body, **more})
    assert status == 200, answer
    assert answer["model"] == model
    return answer["choices"][0]["logprobs"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def load(s, name, path, **more):
    return s.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path), **more})


def unload(s, name):
    return s.post("/v1/unload_lora_adapter", {"lora_name": name})


# ---- Chosen by name ---------------------------------------------------------------------------------


def test_client_chooses_the_adapter_by_model_name(serve, folder):
    s = serve(BASE, "--name", "base", "--lora", f"one={folder}/one", "--lora", f"half={folder}/two:0.5")
    client = s.client()
    listed = {m.id: m for m in client.models.list().data}
    assert list(listed) == ["base", "one", "half"]
    assert listed["base"].parent is None and listed["one"].parent == "base"
    assert listed["one"].root == f"{folder}/one"
    assert client.models.retrieve("half").parent == "base"

    def answer(model):
        got = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello there"}],
                                             max_tokens=12, temperature=0, logprobs=True, extra_body={"ignore_eos": True})
        assert got.model == model
        return [t.logprob for t in got.choices[0].logprobs.content]

    answers = {name: answer(name) for name in listed}
    assert len({tuple(a) for a in answers.values()}) == 3
    import openai
    with pytest.raises(openai.NotFoundError):
        answer("three")


def test_streams_name_the_adapter(serve, folder):
    s = serve(BASE, "--name", "base", "--lora", f"one={folder}/one")
    stream = s.client().chat.completions.create(model="one", messages=[{"role": "user", "content": "Hi"}],
                                                max_tokens=4, stream=True)
    assert {chunk.model for chunk in stream} == {"one"}


def test_scale_is_that_of_alpha(serve, folder, tmp_path):
    alpha = json.load(open(ADAPTER + "/adapter_config.json", encoding="utf-8"))["lora_alpha"]
    make_adapter(tmp_path / "half", 1.0, {"lora_alpha": alpha / 2})
    s = serve(BASE, "--name", "base", "--dtype", "f32", "--lora", f"scaled={folder}/one:0.5", "--lora", f"half={tmp_path}/half")
    assert complete(s, "scaled", IDS)[0] == complete(s, "half", IDS)[0]


def test_mixed_with_the_base_in_one_batch(serve, folder, background):
    s = serve(BASE, "--name", "base", "--lora", f"one={folder}/one", "--lora", f"two={folder}/two", "--no-prefix-cache")
    jobs = [(m, IDS[:n]) for n in (5, 33, 70) for m in ("base", "one", "two")]
    alone = [complete(s, *job)[0] for job in jobs]
    together = [None] * len(jobs)

    def run(i):
        together[i] = complete(s, *jobs[i])[0]

    for t in [background(run, i) for i in range(len(jobs))]:
        t.join(120)
    assert together == alone
    assert alone[0] != alone[1] != alone[2]


# ---- Loaded while running ------------------------------------------------------------------------------


def test_loading_is_off_unless_allowed(serve, folder):
    s = serve(BASE, "--lora", f"one={folder}/one")
    for status, answer in (load(s, "two", folder / "two"), unload(s, "one")):
        assert status == 403 and "--lora-dir" in answer["error"]["message"]
    assert complete(s, "one")


def test_load_use_unload(serve, folder):
    s = start(serve, folder)
    assert load(s, "a", "one") == (200, b"Success: LoRA adapter 'a' added successfully.")
    assert load(s, "b", folder / "two")[0] == 200               # the whole path, below the folder
    one, two, base = complete(s, "a")[0], complete(s, "b")[0], complete(s, "base")[0]
    assert one != two and one != base and two != base
    shutil.copy(ROOT / "tests/data/lora/llama3.gguf", folder)
    assert load(s, "file", "llama3.gguf")[0] == 200
    assert complete(s, "file")[0] not in (one, two, base)
    status, answer = load(s, "a", "two")
    assert status == 400 and answer["error"]["param"] == "lora_name"
    assert complete(s, "a")[0] == one
    assert load(s, "a", "two", load_inplace=True)[0] == 200
    assert complete(s, "a")[0] == two
    assert unload(s, "a") == (200, b"Success: LoRA adapter 'a' removed successfully.")
    assert s.post("/v1/completions", {"model": "a", "prompt": "x"})[0] == 404
    status, answer = unload(s, "a")
    assert status == 404 and answer["error"]["param"] == "lora_name"
    assert complete(s, "base")[0] == base


@pytest.mark.parametrize("body,param", [
    ({"lora_path": "one"}, "lora_name"), ({"lora_name": "x"}, "lora_path"), ({"lora_name": "", "lora_path": "one"}, "lora_name"),
    ({"lora_name": 1, "lora_path": "one"}, "lora_name"), ({"lora_name": "base", "lora_path": "one"}, "lora_name"),
    ({"lora_name": "a\nb", "lora_path": "one"}, "lora_name"), ({"lora_name": "x" * 201, "lora_path": "one"}, "lora_name"),
    ({"lora_name": "x", "lora_path": "one", "rank": 1}, "rank"),
])
def test_faulty_bodies(serve, folder, body, param):
    status, answer = start(serve, folder).post("/v1/load_lora_adapter", body)
    assert status == 400 and answer["error"]["param"] == param


def test_paths_stay_below_the_folder(serve, folder, tmp_path):
    s = start(serve, folder)
    names = ["link", "linked", "../outside", "..", ".", "...", "one/../one", "./one", "one/", "one//", "a\\b", "/etc/x", "C:x", "CON",
             "one\0x", "%2e%2e%2foutside", "\uff0e\uff0e/outside", "x" * 256, "", "/", str(tmp_path / "outside"), str(folder), f"{folder}/",
             f"{folder}/../outside", "empty", "one/adapter_config.json/x"]
    for name in names:
        status, answer = load(s, "x", name)
        assert status == 400, (name, answer)
    assert len(s.client().models.list().data) == 1


def test_faults_name_file_and_tensor(serve, folder):
    make_adapter(folder / "faulty", 1.0, {"r": 4})
    s = start(serve, folder)
    status, answer = load(s, "x", "faulty")
    assert status == 400 and "faulty" in answer["error"]["message"] and "rank 4" in answer["error"]["message"]
    status, answer = load(s, "x", "empty")
    assert status == 400 and "adapter_config.json" in answer["error"]["message"]


# ---- Caches ---------------------------------------------------------------------------------------------


def test_another_content_under_the_same_name_never_meets_old_pages(serve, folder):
    s = start(serve, folder)
    load(s, "nightly", "one")
    first, cached = complete(s, "nightly")
    assert cached == 0
    assert complete(s, "nightly") == (first, 64)
    unload(s, "nightly")
    load(s, "nightly", "two")
    warm, cached = complete(s, "nightly")
    assert cached == 0
    cold = start(serve, folder, "--no-prefix-cache")
    load(cold, "nightly", "two")
    assert warm == complete(cold, "nightly")[0] != first
    unload(s, "nightly")                                        # the old content again: its own pages are good
    load(s, "nightly", "one")
    assert complete(s, "nightly") == (first, 64)


def test_files_replaced_in_place(serve, folder):
    s = start(serve, folder)
    load(s, "x", "one")
    first, _ = complete(s, "x")
    make_adapter(folder / "new", 2.0)                           # another inode under the same path
    shutil.rmtree(folder / "one")
    os.rename(folder / "new", folder / "one")
    assert complete(s, "x")[0] == first                         # what is loaded stays as it was
    load(s, "x", "one", load_inplace=True)
    warm, cached = complete(s, "x")
    assert cached == 0 and warm != first


def test_adapters_never_cross_hit_and_equal_ones_share(serve, folder):
    shutil.copytree(folder / "one", folder / "same")
    s = start(serve, folder, "--lora", f"scaled={folder}/one:0.25")
    for name in ("one", "two", "same"):
        load(s, name, name)
    assert [complete(s, m)[1] for m in ("base", "one", "two", "scaled")] == [0, 0, 0, 0]
    assert [complete(s, m)[1] for m in ("base", "one", "two", "scaled", "same")] == [64] * 5


# ---- While requests run ------------------------------------------------------------------------------------


def test_unloaded_while_requests_run(serve, folder, background):
    s = start(serve, folder, "--no-prefix-cache")
    load(s, "x", "one")
    want = complete(s, "x", max_tokens=200)[0]
    got = []

    def run():
        got.append(complete(s, "x", max_tokens=200)[0])

    threads = [background(run) for _ in range(4)]
    from conftest import until
    def known():
        h = s.health()
        return h["running"] + h["waiting"] + len(got) >= 4
    assert until(known)                         # who comes later is told that there is no such model
    assert unload(s, "x")[0] == 200
    for t in threads:
        t.join(120)
    assert got == [want] * 4
    assert s.post("/v1/completions", {"model": "x", "prompt": "x"})[0] == 404


def test_load_and_unload_under_traffic(serve, folder, background):
    s = start(serve, folder)
    load(s, "fixed", "two")
    want = complete(s, "fixed")[0]

    def churn():
        for i in range(15):
            assert load(s, "x", "one", load_inplace=True)[0] == 200
            s.post("/v1/completions", {"model": "x", "prompt": IDS, "max_tokens": 2})
            unload(s, "x")

    def traffic():
        for i in range(15):
            assert complete(s, "fixed")[0] == want

    for t in [background(churn), background(churn), background(traffic), background(traffic)]:
        t.join(240)
    assert s.alive()


# ---- The command line ------------------------------------------------------------------------------------------


def fornax(*argv, stdin=""):
    return subprocess.run([FORNAX, *map(str, argv)], input=stdin, capture_output=True, encoding="utf-8", timeout=300)


def test_commands_take_an_adapter(folder):
    ids = ",".join(map(str, IDS))
    rows = [fornax("logits", BASE, "--tokens", ids, "--json", *more).stdout
            for more in ([], ["--lora", ADAPTER], ["--lora", f"{ADAPTER}:1"], ["--lora", f"{folder}/two:1e-3"])]
    assert rows[1] == rows[2] and len(set(rows)) == 3
    chats = [fornax("chat", BASE, "-n", 16, "--ignore-eos", *more, stdin="Hello\n").stdout
             for more in ([], ["--lora", f"{folder}/two"])]
    assert chats[0] and chats[1] and chats[0] != chats[1]
    vectors = [fornax("encode", BASE, "--json", *more, stdin="Hello").stdout for more in ([], ["--lora", ADAPTER])]
    assert vectors[0] and vectors[1] and vectors[0] != vectors[1]


@pytest.mark.parametrize("argv,status,says", [
    (["serve", BASE, "--lora", ADAPTER], 2, "NAME=PATH"), (["serve", BASE, "--lora", "x="], 2, "NAME=PATH"),
    (["serve", BASE, "--lora", f"x={ADAPTER}:0"], 2, "scale"), (["serve", BASE, "--lora", "x=/nonexistent"], 1, "/nonexistent"),
    (["serve", BASE, "--lora", f"x={ADAPTER}", "--lora", f"x={ADAPTER}"], 1, "loaded already"),
    (["serve", BASE, "--lora-dir", "/nonexistent"], 1, "/nonexistent"),
    (["generate", BASE, "-p", "x", "--lora", f"{ADAPTER}:0"], 2, "--lora: a scale"), (["bench", BASE, "--lora", ADAPTER], 2, "lora"),
])
def test_command_line_faults(argv, status, says):
    p = fornax(*argv)
    assert p.returncode == status and says in p.stderr, p.stderr


# ---- Vectors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["xlm_roberta", "qwen3_embedding"])
def test_vectors_with_an_adapter(serve, name):
    """Against PEFT, by the program and by the route."""
    base, adapter = str(ROOT / "tests/data/embed" / name), str(ROOT / "tests/data/lora" / name)
    items = json.load(open(adapter + "/reference.json", encoding="utf-8"))["items"]
    client = serve(base, "--name", "base", "--dtype", "f32", "--lora", f"tuned={adapter}").client()
    for item in items:
        p = fornax("encode", base, "--dtype", "f32", "--json", "--lora", adapter, stdin=item["text"])
        assert p.returncode == 0, p.stderr
        answer = client.embeddings.create(model="tuned", input=item["text"])
        bare = client.embeddings.create(model="base", input=item["text"]).data[0].embedding
        assert answer.model == "tuned"
        for got in (json.loads(p.stdout)["embeddings"][0], answer.data[0].embedding):
            assert max(abs(x - y) for x, y in zip(got, item["embedding"], strict=True)) < 1e-5
        assert max(abs(x - y) for x, y in zip(bare, item["embedding"], strict=True)) > 1e-2
