"""Vega, Vega-Lite and Vega-Embed as vl-convert ships them: the charts' JavaScript, and stills drawn by it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import vl_convert

from reports.charts import Figure, still, still_spec, tidied

_EXPORT = "window.vegaEmbed = vegaEmbed;"
# One line of JSON in, one out. The engine starts with an empty drawing, while nobody waits for it.
_PROGRAM = """
import json, sys, vl_convert
vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
for line in sys.stdin:
    asked = json.loads(line)
    if "export" in asked:
        made = vl_convert.javascript_bundle(asked["export"])
    else:
        made = vl_convert.vegalite_to_svg(asked["spec"], allowed_base_urls=[])
    print(json.dumps(made), flush=True)
"""
# A drawing that fails here fails in the other process as well; what it says is said here.
_FAILED = (OSError, ValueError)


class Bundling:
    """Put the bundle together and draw stills in another process while this one works on the page.

    vl-convert holds the interpreter's lock meanwhile, so that a thread would gain nothing. What the other
    process cannot do is done here.

    Args:
        kept: a folder in which the bundle, which takes over a second to make, is kept for the next page;
            None for nowhere.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._kept = kept / _name() if kept else None
        self._process: subprocess.Popen[str] | None = None
        self._asking = ThreadPoolExecutor(1)
        self._known = ""
        self._bundle: Future[str] | None = None

    def __enter__(self) -> Bundling:
        self._known = _read(self._kept) if self._kept else ""
        with contextlib.suppress(OSError):  # no room for another process
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
            )  # fmt: skip
        if not self._known:
            self._bundle = self._ask({"export": _EXPORT})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
        self._asking.shutdown(cancel_futures=True)
        if self._process is not None:
            self._process.communicate()

    def text(self) -> str:
        """Wait for the bundle."""
        if not self._known:
            self._known = _taken(self._bundle) or bundle_text()
            if self._kept:
                _keep(self._kept, self._known)
        return self._known

    def still(self, figure: Figure) -> Callable[[], str]:
        """Begin to draw a figure; what is returned waits for the SVG."""
        coming = self._ask({"spec": still_spec(figure)})

        def wait() -> str:
            svg = _taken(coming)
            return tidied(figure, svg) if svg else still(figure)

        return wait

    def _ask(self, question: Mapping[str, Any]) -> Future[str]:
        return self._asking.submit(self._answer, question)

    def _answer(self, question: Mapping[str, Any]) -> str:
        """Have the other process answer; a thread waits for it, so that neither side's pipe can fill up."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return ""
        self._process.stdin.write(json.dumps(question, separators=(",", ":")) + "\n")
        self._process.stdin.flush()
        answer: str = json.loads(self._process.stdout.readline())
        return answer


def bundle_text() -> str:
    """Make the bundle."""
    text: str = vl_convert.javascript_bundle(_EXPORT)
    return text


def _taken(coming: Future[str] | None) -> str:
    """Wait for an answer; "" where there is none."""
    try:
        return coming.result() if coming else ""
    except _FAILED:
        return ""


def _name() -> str:
    """Name the bundle by all that it is made of."""
    return f"vega-{version('vl-convert-python')}-{hashlib.sha256(_EXPORT.encode()).hexdigest()[:8]}.js"


def _read(path: Path) -> str:
    """Read what `_keep` wrote, "" where it is not there or not whole."""
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return ""
    return text if digest == hashlib.sha256(text.encode()).hexdigest() else ""


def _keep(path: Path, text: str) -> None:
    """Write the bundle below its own hash, whole or not at all; what cannot be kept is made again."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", encoding="utf-8")
        partial.replace(path)
