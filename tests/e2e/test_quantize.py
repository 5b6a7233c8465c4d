"""fornax quantize: SmolLM2 in other types still answers, here and in llama.cpp; its own quantizer makes the same of it.
Needs FORNAX_MODEL; the peer's half needs the packages llama_cpp and gguf."""
import json
import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
MODEL = os.environ.get("FORNAX_MODEL", "")
PROMPT = "The capital of France is"
MORE = ["Once upon a time there was a small dragon who", "def fibonacci(n):", "Water boils at a temperature of"]
NEAR = 0.1                               # logits: less than that is a tie

pytestmark = pytest.mark.skipif(not MODEL, reason="FORNAX_MODEL doesn't name SmolLM2")


@pytest.fixture(scope="module", params=["q8_0", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "iq4_nl"])
def quantized(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("quantized") / f"{request.param}.gguf"
    subprocess.run([FORNAX, "quantize", MODEL, out, "--type", request.param], check=True, timeout=300)
    return request.param, str(out)


def generate(path):
    p = subprocess.run([FORNAX, "generate", path, "-p", PROMPT, "-n", "8", "--json"], check=True, capture_output=True,
                       timeout=300)
    return json.loads(p.stdout)["text"]


def test_text(quantized):
    assert generate(quantized[1]).startswith(" Paris")


def test_peer_reads_it(quantized):
    llama_cpp = pytest.importorskip("llama_cpp")
    llm = llama_cpp.Llama(quantized[1], n_ctx=64, n_threads=1, verbose=False)
    out = llm.create_completion(PROMPT, max_tokens=8, temperature=0)
    assert out["choices"][0]["text"].startswith(" Paris")


def follow(llama_cpp, np, path):
    """Greedy ids and the logits behind each, of all prompts, by the peer."""
    llm = llama_cpp.Llama(path, n_ctx=64, n_threads=1, verbose=False)
    out = []
    for prompt in [PROMPT] + MORE:
        llm.reset()
        llm.eval(llm.tokenize(prompt.encode()))
        steps = []
        for _ in range(32):
            row = np.ctypeslib.as_array(llama_cpp.llama_cpp.llama_get_logits_ith(llm.ctx, -1), shape=(llm.n_vocab(),)).copy()
            steps.append((int(row.argmax()), row))
            llm.eval([steps[-1][0]])
        out.append(steps)
    return out


def test_peer_makes_the_same(quantized, tmp_path):
    """The same types; the same blocks but for few that rounding of sums changes; then the same text up to ties."""
    llama_cpp = pytest.importorskip("llama_cpp")
    gguf = pytest.importorskip("gguf")
    np = pytest.importorskip("numpy")
    import ctypes

    llama = llama_cpp.llama_cpp
    params = llama.llama_model_quantize_default_params()
    params.ftype = getattr(llama, "LLAMA_FTYPE_MOSTLY_" + quantized[0].upper())
    params.allow_requantize = True
    other = str(tmp_path / "peer.gguf")
    assert llama.llama_model_quantize(MODEL.encode(), other.encode(), ctypes.byref(params)) == 0
    ours, theirs = ({t.name: t for t in gguf.GGUFReader(path).tensors} for path in (quantized[1], other))
    assert {k: t.tensor_type for k, t in ours.items()} == {k: t.tensor_type for k, t in theirs.items()}
    different = [k for k in ours if not np.array_equal(ours[k].data, theirs[k].data)]
    for k in different:
        size = gguf.GGML_QUANT_SIZES[ours[k].tensor_type][1]
        a, b = (t[k].data.reshape(-1, size) for t in (ours, theirs))
        assert (a != b).any(1).mean() <= 0.01, k
    for a, b in zip(follow(llama_cpp, np, quantized[1]), follow(llama_cpp, np, other)) if different else ():
        for (x, rows_a), (y, rows_b) in zip(a, b):
            if x != y:
                assert rows_a[x] - rows_a[y] <= NEAR and rows_b[y] - rows_b[x] <= NEAR
                break
