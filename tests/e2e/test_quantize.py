"""fornax quantize: SmolLM2 in other types still answers, here and in llama.cpp, whose choice of types it has.
Needs FORNAX_MODEL; the peer's half needs the packages llama_cpp and gguf."""
import json
import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
MODEL = os.environ.get("FORNAX_MODEL", "")
PROMPT = "The capital of France is"

pytestmark = pytest.mark.skipif(not MODEL, reason="FORNAX_MODEL doesn't name SmolLM2")


@pytest.fixture(scope="module", params=["q8_0", "q4_k_m", "q5_k_m", "iq4_nl"])
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
    llm = llama_cpp.Llama(quantized[1], n_ctx=64, n_threads=2, verbose=False)
    out = llm.create_completion(PROMPT, max_tokens=8, temperature=0)
    assert out["choices"][0]["text"].startswith(" Paris")


def test_peer_chooses_the_same_types(quantized, tmp_path):
    llama = pytest.importorskip("llama_cpp").llama_cpp
    gguf = pytest.importorskip("gguf")
    import ctypes

    params = llama.llama_model_quantize_default_params()
    params.ftype = getattr(llama, "LLAMA_FTYPE_MOSTLY_" + quantized[0].upper())
    params.allow_requantize = True
    other = str(tmp_path / "peer.gguf")
    assert llama.llama_model_quantize(MODEL.encode(), other.encode(), ctypes.byref(params)) == 0
    theirs = {t.name: t.tensor_type for t in gguf.GGUFReader(other).tensors}
    assert {t.name: t.tensor_type for t in gguf.GGUFReader(quantized[1]).tensors} == theirs
