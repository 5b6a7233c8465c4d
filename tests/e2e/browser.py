"""A headless Chromium driven through its debugging pipe (no packages needed)."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. Scripts run in it with js(); what it logs as errors gathers in .errors."""

    def __init__(self, width=1000, height=700, dark=False):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # The browser reads descriptor 3 and writes 4; ours must not be in the way of that.
        ends = [e for pair in (os.pipe(), os.pipe()) for e in pair]
        to_read, self.to, self.back, to_write = (fcntl.fcntl(e, fcntl.F_DUPFD_CLOEXEC, 10) for e in ends)
        for e in ends:
            os.close(e)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", find(), *flags], pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.folder.name})
        os.close(to_read)
        os.close(to_write)
        self.rest, self.id, self.session, self.errors, self.requests = b"", 0, None, [], []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def _message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _event(self, m):
        p = m.get("params", {})
        if m["method"] == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("exception", {}).get("description", str(p)))
        elif m["method"] == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.errors.append(f"{p['entry']['text']} {p['entry'].get('url', '')}")
        elif m["method"] == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])

    def call(self, method, **params):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            m = self._message(60)
            if m.get("id") == self.id:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            if "method" in m:
                self._event(m)

    def js(self, code):
        r = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"])
        return r["result"].get("value")

    def wait(self, code, seconds=60):
        """Until a script's value is true; the value."""
        end = time.monotonic() + seconds
        while not (value := self.js(code)):
            assert time.monotonic() < end, f"never true: {code}"
            time.sleep(0.05)
        return value

    def open(self, url):
        self.js("window.left = true")                  # the page before may have the same address
        self.call("Page.navigate", url=url)
        self.wait(f"!window.left && document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def type(self, text):
        self.wait("document.activeElement !== document.body")     # autofocus comes after the load event
        self.call("Input.insertText", text=text)

    def key(self, name, code=0, shift=False):
        text = {"text": "\r"} if name == "Enter" else {}
        common = dict(key=name, code=name, windowsVirtualKeyCode=code, modifiers=8 if shift else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def enter(self, shift=False):
        self.key("Enter", 13, shift)

    def click(self, selector):
        x, y = self.js(f"""(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                                  return [r.x + r.width / 2, r.y + r.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, TimeoutError, OSError):
            self.process.kill()
        self.process.wait(30)
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()
