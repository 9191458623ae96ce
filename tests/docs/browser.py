"""Headless Chromium, driven by the DevTools protocol over a pair of pipes: no package is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")  # Debian's, Ubuntu's, Google's


class Browser:
    """One tab. Commands and events are JSON texts that end in a zero byte."""

    def __init__(self, commands: FileIO, answers: FileIO):
        self._commands = commands
        self._answers = answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []  # of the page that is open: exceptions, files that do not load
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Give a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._answers.read(1 << 16)
            if not piece:
                raise RuntimeError("the browser has gone")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        told = answer.get("params", {})
        if answer.get("method") == "Runtime.exceptionThrown":
            thrown = told["exceptionDetails"]
            self.errors.append(thrown.get("exception", {}).get("description", thrown["text"]))
        if answer.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        return answer

    def open(self, address: str, width: int, height: int, phone: bool) -> None:
        """Load a page into a window of that size, pictures and all."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.errors.clear()
        # None where nothing but what follows the # is another: the page is there.
        if self.send("Page.navigate", url=address).get("loaderId") is not None:
            while self._receive().get("method") != "Page.loadEventFired":
                pass

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['text']}")
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """Return the window as a PNG file."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start a browser, and end it afterwards."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise SystemExit("no Chromium found; to get it: apt-get install chromium")
    command_reader, commands = os.pipe()
    answers, answer_writer = os.pipe()
    options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]
    # Processes of the browser may still write to its profile when the first of them has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol wants the pipes as file descriptors 3 and 4.
        started = f'exec "$0" "$@" 3<&{command_reader} 4>&{answer_writer}'
        process = subprocess.Popen(
            ["bash", "-c", started, program, *options, f"--user-data-dir={profile}"],
            pass_fds=(command_reader, answer_writer),
            stderr=subprocess.DEVNULL,
        )
        os.close(command_reader)
        os.close(answer_writer)
        with os.fdopen(commands, "wb", buffering=0) as told, os.fdopen(answers, "rb", 0) as heard:
            try:
                yield Browser(told, heard)
            finally:
                process.terminate()
                process.wait()
