"""The web page in a headless Chromium: loads, sends, streams, stops, shows errors, fits a phone."""
import json
import os
import signal

import pytest

import browser
from conftest import ROOT, TINY, until

pytestmark = pytest.mark.skipif(not browser.find(), reason="no chromium")

LAST = "([...document.querySelectorAll('.message.assistant .text')].at(-1)?.innerText ?? '')"
IDLE = "!document.querySelector('#send').hidden"
NOTE = "([...document.querySelectorAll('.note')].at(-1)?.innerText ?? '')"


@pytest.fixture
def page(request):
    b = browser.Browser()
    yield b
    folder = os.environ.get("FORNAX_SCREENSHOTS")
    if folder:
        b.screenshot(f"{folder}/{request.node.name}.png")
    b.close()


def ask(page, text):
    page.js("document.querySelector('#input').focus()")
    page.type(text)
    page.enter()


def settings(page, **values):
    for name, value in values.items():
        page.js(f"""(() => {{ const e = document.querySelector('#{name}'); e.value = {json.dumps(str(value))};
                              e.dispatchEvent(new Event('change')); }})()""")


def test_is_one_file(tiny):
    status, head, data = tiny.request("GET", "/")
    text = data.decode()
    assert status == 200 and head["content-type"] == "text/html; charset=utf-8"
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    assert "innerHTML" not in text and "eval(" not in text


def test_send_and_stream(smol, page):
    page.open(smol.url + "/")
    page.wait("document.querySelector('#model').textContent === 'smol'")
    page.wait("document.querySelector('#dot').className === 'ok'")
    assert page.js("document.activeElement.id") == "input"
    settings(page, temperature=0, max_tokens=60)
    ask(page, "What is gravity?")
    page.wait(f"{LAST}.length > 20")
    partial = page.js(LAST)
    streaming = page.js("document.querySelector('#send').hidden")
    page.wait(IDLE)
    text = page.js(LAST)
    assert text.startswith(partial[:20]) and (len(text) > len(partial) or not streaming)
    body = {"messages": [{"role": "user", "content": "What is gravity?"}], "temperature": 0, "max_tokens": 60}
    assert smol.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"].split() == text.split()
    note = page.js(NOTE)
    assert "tokens/s" in note and "60 tokens" in note and "cut at the length limit" in note
    assert page.js("document.querySelector('.message.user').innerText").endswith("What is gravity?")
    assert page.errors == [] and all(u.startswith((smol.url, "data:")) for u in page.requests)


def test_conversation_goes_on(smol, page):
    page.open(smol.url + "/")
    settings(page, temperature=0, max_tokens=10, system="You are a pirate.", seed=5)
    page.js("window.sent = []; const f = window.fetch; window.fetch = (u, o) => { if (o?.body) sent.push(o.body); return f(u, o); }")
    ask(page, "Hello")
    page.wait(f"{IDLE} && {NOTE}")
    ask(page, "And then?")
    page.wait(f"{IDLE} && document.querySelectorAll('.note').length === 2")
    first, second = map(json.loads, page.js("sent"))
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"].strip() and second["seed"] == 5 and second["max_tokens"] == 10
    page.click("#clear")
    assert page.js("document.querySelectorAll('.message').length") == 0
    ask(page, "Hi")
    page.wait(f"{IDLE} && {NOTE}")
    assert len(json.loads(page.js("sent")[-1])["messages"]) == 2


@pytest.mark.parametrize("how", ["button", "escape", "clear"])
def test_stop(smol, page, how):
    page.open(smol.url + "/")
    settings(page, temperature=1, max_tokens=3000)
    ask(page, "Write a very long story about the sea, in many chapters.")
    page.wait(f"{LAST}.length > 10")
    before = smol.metric("requests_cancelled_total")
    if how == "button":
        page.click("#stop")
    elif how == "escape":
        page.key("Escape", 27)
    else:
        page.click("#clear")
    page.wait(IDLE)
    assert until(lambda: smol.metric("requests_cancelled_total") > before or smol.quiet(1), 20)
    if how == "clear":
        assert page.js("document.querySelectorAll('.message, .error').length") == 0
    else:
        assert "stopped" in page.js(NOTE) and page.js(LAST)
        settings(page, max_tokens=5)
        ask(page, "Go on")                                  # what came before the stop is kept
        page.wait(f"{IDLE} && document.querySelectorAll('.note').length === 2")
    assert page.errors == []


def test_markup_of_the_model_stays_text(tiny, page):
    page.open(tiny.url + "/")
    page.js("""(() => { const v = addMessage('assistant', ''); render(v.body,
        'a <img src=x onerror=alert(1)> **bold** `<b>code</b>`\\n\\n```html\\n<script>alert(2)</' + 'script>\\n  two\\n```\\nend ```'); })()""")
    assert page.js(f"{LAST}").startswith("a <img src=x onerror=alert(1)> bold <b>code</b>")
    assert page.js("document.querySelectorAll('#log img, #log script, #log b').length") == 0
    assert page.js("document.querySelector('.block code').textContent") == "<script>alert(2)</script>\n  two"
    assert page.js("document.querySelector('.text strong').textContent") == "bold"
    assert page.js("[...document.querySelectorAll('.text p')].at(-1).textContent") == "end ```"
    page.js("render(document.querySelector('.text'), '```\\nnot closed\\n\\nyet')")
    assert page.js("document.querySelector('.block code').textContent") == "not closed\n\nyet"


def test_errors_are_shown(tiny, page):
    page.open(tiny.url + "/")
    ask(page, "many words " * 600)
    page.wait(f"{IDLE} && document.querySelector('.error') !== null")
    assert "512" in page.js("document.querySelector('[role=alert]').innerText")
    assert page.js("document.querySelectorAll('.message').length") == 0
    assert page.js("document.querySelector('#input').value").startswith("many words")      # not lost


def test_an_adapter_is_chosen(serve, page):
    base = str(ROOT / "tests/data/models/lora_llama3")
    s = serve(base, "--name", "base", "--lora", f"tuned={base}/adapter")
    page.open(s.url + "/")
    page.wait("document.querySelector('#dot').className === 'ok'")
    assert page.js("document.querySelector('#choice').hidden")
    page.js("document.querySelector('#show').click()")
    page.wait("!document.querySelector('#choice').hidden")
    assert page.js("[...document.querySelectorAll('#which option')].map(o => o.value).join()") == "base,tuned"
    page.js("""(() => { const send = window.fetch; window.sent = [];
                        window.fetch = (to, o) => { if (o?.body) sent.push(JSON.parse(o.body).model); return send(to, o); }; })()""")
    for name in ("tuned", "base"):
        settings(page, which=name, max_tokens=4)
        ask(page, "Hello")
        page.wait(IDLE + f" && window.sent.at(-1) === '{name}'")
    assert page.js("window.sent.join()") == "tuned,base"


def test_wrong_settings_are_not_sent(tiny, page):
    page.open(tiny.url + "/")
    settings(page, temperature=7)
    ask(page, "Hello")
    assert page.js("!document.querySelector('#settings').hidden && document.querySelectorAll('.message').length === 0")


def test_server_goes_away(serve, page):
    s = serve(TINY)
    page.open(s.url + "/")
    page.wait("document.querySelector('#dot').className === 'ok'")
    s.stop(signal.SIGTERM)
    ask(page, "Hello")
    page.wait(f"{IDLE} && document.querySelector('.error') !== null")
    assert "reached" in page.js("document.querySelector('.error').innerText")
    page.wait("document.querySelector('#dot').className === 'bad'")


def test_keyboard(tiny, page):
    page.open(tiny.url + "/")
    page.type("one")
    page.enter(shift=True)
    page.type("two")
    assert page.js("document.querySelector('#input').value") == "one\ntwo"
    assert page.js("document.querySelectorAll('.message').length") == 0
    settings(page, max_tokens=3)
    page.enter()
    page.wait(f"{IDLE} && document.querySelectorAll('.message.user').length === 1")


def test_themes_and_memory(tiny, page):
    page.open(tiny.url + "/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.js(background)
    page.click("#theme")
    assert page.js(background) != light
    settings(page, system="kept")
    page.open(tiny.url + "/?again")
    assert page.js(background) != light and page.js("document.querySelector('#system').value") == "kept"


@pytest.mark.parametrize("width", [320, 390, 768, 1600])
def test_fits(tiny, page, width):
    page.size(width, 640, phone=width < 500)
    page.open(tiny.url + "/")
    page.click("#show")
    page.js("addMessage('user', 'x'.repeat(400)); const v = addMessage('assistant', ''); render(v.body, 'y'.repeat(400) + '\\n```\\n' + 'z '.repeat(400) + '\\n```');")
    assert page.js("document.documentElement.scrollWidth <= innerWidth && document.querySelector('#scroll').scrollWidth <= innerWidth")
    for button in ("#send", "#clear", "#show", "#theme", "#input", "#system", "#seed"):
        x, right, bottom = page.js(f"(r => [r.x, r.right, r.bottom])(document.querySelector('{button}').getBoundingClientRect())")
        assert x >= 0 and right <= width and bottom <= 640, button
