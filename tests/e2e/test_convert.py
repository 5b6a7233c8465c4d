"""fornax quantize of hub folders: the GGUF answers as the folder does, here and in llama.cpp (the package llama_cpp).
Expected ids are the reference library's (reference.json of tests/data/models); near-ties may go the other way."""
import json
import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
MODELS = os.path.join(HERE, "..", "data", "models")
NAMES = ["llama3", "llama3_sharded", "mistral", "qwen2_yarn", "qwen3", "exaone"]
TEXT = "Hello wörld 1234  don't\n\n\tend <|im_start|>user <s> x"
MARGIN = 0.02                            # of the logits' deviation; the peer's keys and values are f16


def fornax(*argv):
    p = subprocess.run([FORNAX, *map(str, argv)], capture_output=True, timeout=300)
    assert p.returncode == 0, p.stderr.decode()
    return json.loads(p.stdout) if p.stdout else None


def prompts(name):
    return [p for p in json.load(open(os.path.join(MODELS, name, "reference.json"), encoding="utf-8"))["prompts"]
            if p["greedy"]]


def join(ids):
    return ",".join(map(str, ids))


@pytest.fixture(scope="module", params=NAMES)
def converted(request, tmp_path_factory):
    out = str(tmp_path_factory.mktemp("converted") / f"{request.param}.gguf")
    fornax("quantize", os.path.join(MODELS, request.param), out, "--type", "f32", "-q")
    return request.param, out


def test_same_ids_as_the_folder(converted):
    name, path = converted
    for p in prompts(name):
        options = ["--tokens", join(p["ids"]), "-n", len(p["greedy"]), "--ignore-eos", "--dtype", "f32", "--json"]
        folder = fornax("generate", os.path.join(MODELS, name), *options)
        assert fornax("generate", path, *options)["ids"] == folder["ids"]


def test_same_tokens_and_template(converted):
    name, path = converted
    folder = os.path.join(MODELS, name)
    for options in ([], ["--no-special"]):
        assert fornax("tokenize", path, "--text", TEXT, "--json", *options) == \
            fornax("tokenize", folder, "--text", TEXT, "--json", *options)
    if os.path.exists(os.path.join(folder, "chat_template.jinja")):
        options = ["-p", "Hi", "--chat", "-n", "4", "--dtype", "f32", "--json"]
        assert fornax("generate", path, *options) == fornax("generate", folder, *options)


def test_peer_gives_the_reference(converted):
    llama_cpp = pytest.importorskip("llama_cpp")
    name, path = converted
    llm = llama_cpp.Llama(path, n_ctx=512, n_threads=1, verbose=False)
    for p in prompts(name):
        llm.reset()
        ids, got = list(p["ids"]), []
        if name == "mistral" and len(ids) + len(p["greedy"]) > 32:
            continue                     # llama.cpp knows no window there
        for token in llm.generate(ids, temp=0, repeat_penalty=1.0):
            got.append(token)
            if len(got) == len(p["greedy"]):
                break
        for i, (a, b) in enumerate(zip(got, p["greedy"])):
            if a != b:
                assert p["greedy_margins"][i] <= MARGIN, f"step {i}"
                break


def test_quantized_as_the_folder(tmp_path):
    out = str(tmp_path / "q8.gguf")
    fornax("quantize", os.path.join(MODELS, "llama3"), out, "--type", "q8_0", "-q")
    reread = str(tmp_path / "again.gguf")
    plain = str(tmp_path / "f32.gguf")
    fornax("quantize", os.path.join(MODELS, "llama3"), plain, "--type", "f32", "-q")
    fornax("quantize", plain, reread, "--type", "q8_0", "-q")
    assert open(out, "rb").read() == open(reread, "rb").read()


@pytest.mark.parametrize("name,word", [("gemma3", "Gemma3ForCausalLM"), ("deepseek_v2", "DeepseekV2ForCausalLM")])
def test_others_are_refused(name, word, tmp_path):
    p = subprocess.run([FORNAX, "quantize", os.path.join(MODELS, name), str(tmp_path / "x.gguf"), "--type", "f16"],
                       capture_output=True, timeout=60)
    assert p.returncode != 0 and word in p.stderr.decode() and not os.listdir(tmp_path)
