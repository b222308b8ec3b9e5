"""A real headless Chromium, driven through its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PACKAGE = "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 60


class BrowserError(Exception):
    """The browser is missing, or a command has failed."""


def executable() -> str:
    """Return Chromium's path; install Debian's package if it is missing. Raises BrowserError."""
    if not _found():
        _install()
    found = _found()
    if not found:
        raise BrowserError(f"Error while looking for Chromium: the package {_PACKAGE} brought no {_NAMES[0]}.")
    return found


def _found() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def _install() -> None:
    by_hand = f"Install it by hand (sudo apt-get install {_PACKAGE}) and run again."
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BrowserError(
            f"Error while looking for Chromium: it is not there, and only root can install it. {by_hand}"
        )
    for command in (["update"], ["install", "--yes", "--no-install-recommends", _PACKAGE, "fonts-dejavu-core"]):
        done = subprocess.run(
            ["apt-get", "--quiet", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stdout.strip().splitlines()[-3:]
            raise BrowserError(f"Error while installing Chromium: apt-get {command[0]}: {' / '.join(said)}. {by_hand}")


class Tab:
    """One page. ``requests`` has the address of everything that it requested."""

    def __init__(self, chromium: Chromium, session: str) -> None:
        self._chromium = chromium
        self._session = session
        self.requests: list[str] = []
        self.messages: list[str] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._chromium.call(method, self._session, params, self._note)

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, scheme: str = "light", script: bool = True
    ) -> None:
        """Load a file in a window of this width, and wait until it is loaded."""
        self.requests.clear()
        self.messages.clear()
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.media(scheme)
        self.call("Page.navigate", url=path.resolve().as_uri())
        limit = time.monotonic() + _PATIENCE
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > limit:
                raise BrowserError(f"Error while loading {path}: it was not there after {_PATIENCE} s")

    def media(self, scheme: str, media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"Error while asking the page: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path: Path, height: int = 100_000) -> None:
        """Return the page as a PNG, down to ``height``."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def accessible(self) -> list[tuple[str, str]]:
        """Return role and name of everything that is exposed to assistive technology."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node.get("role", {}).get("value", "")), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node.get("ignored")
        ]

    def _note(self, event: dict[str, Any]) -> None:
        params = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.messages.append(str(params["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded":
            self.messages.append(params["entry"]["text"])
        elif event["method"] == "Page.javascriptDialogOpening":
            self.messages.append(f"dialog: {params['message']}")


class Chromium:
    """The controlling end of the pipe: JSON messages, each terminated by a zero byte."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest = b""
        self._number = 0

    def tab(self) -> Tab:
        target = self.call("Target.createTarget", "", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", "", {"targetId": target, "flatten": True})
        return Tab(self, attached["sessionId"])

    def call(self, method: str, session: str, params: dict[str, Any], note: Any = None) -> dict[str, Any]:
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"Error while calling {method}: {answer['error']['message']}")
                found: dict[str, Any] = answer["result"]
                return found
            if note and "method" in answer and answer.get("sessionId") == session:
                note(answer)

    def _next(self, method: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._receive], [], [], _PATIENCE)[0]:
                raise BrowserError(f"Error while calling {method}: Chromium said nothing for {_PATIENCE} s")
            more = os.read(self._receive, 1 << 20)
            if not more:
                raise BrowserError(f"Error while calling {method}: Chromium has ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """Run Chromium with a profile of its own."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Chromium reads from descriptor 3 and writes to 4; the shell connects the pipes to them.
    command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium"]
    options = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run", "--disable-gpu"]
    options += [
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ]
    if os.geteuid() == 0:
        # Chromium's sandbox refuses to run as root.
        options.append("--no-sandbox")
    with (profile / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, executable(), *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Chromium(ours_out, ours_in)
    finally:
        os.close(ours_out)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)
