"""Reports of the builders' runs, generated once per test process."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import platformdirs

from harness.analysis import analyse, judged
from harness.cli.rendering import charts_code
from harness.model.analysis import Analysis
from harness.model.run import Prices, Run
from harness.run.limits import parse_limit
from harness.run.machines import shipped_machines
from harness.run.recording import pack_for_page
from harness.run.store import read_run
from reports.page import render_html
from tests import builders, special_runs
from tests.recordings import SUITE, recording
from tests.special_runs import serving_run, sweep_run


def recorded(name: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        return read_run(recording(name, Path(folder)))


def priced_run() -> Run:
    run = builders.four_gpu_run()
    prices = Prices(cpu=0.4, each_gpu=3.5, electricity_per_kwh=0.3)
    return replace(run, manifest=replace(run.manifest, prices=prices))


# The cache that users' reports use too.
CACHE = Path(platformdirs.user_cache_dir("tfbench")) / "charts"

RUNS = {
    "suite": partial(recorded, SUITE),
    "optimizations": partial(recorded, "h200-compute-bound"),
    "cpu": builders.cpu_run,
    "gpu": builders.gpu_run,
    "unhealthy": special_runs.unhealthy_run,
    "soaked": lambda: special_runs.soaked_run(np.linspace(700, 600, 60)),
    "machine": special_runs.measured_machine_run,
    "four-gpus": priced_run,
    "interrupted": builders.interrupted_run,
    "failed": builders.failed_run,
    "bare": builders.bare_run,
    "empty": builders.empty_run,
    "hostile": builders.hostile_run,
    "sweep": sweep_run,
    "serving": serving_run,
}


# Those of the run that is also held against limits.
LIMITS = {
    "machine": ("health = ok", "capability.to-device-pinned >= 60 GB/s", "soak.cold >= 1 TFLOP/s",
                "cifar100-mlp.tuned >= 100000 samples/s"),
}  # fmt: skip


@cache
def analysis(name: str) -> Analysis:
    return judged(analyse(RUNS[name]()), shipped_machines(), map(parse_limit, LIMITS.get(name, ())))


@cache
def page(name: str) -> str:
    text, shown = pack_for_page(analysis(name), whole=True)
    return render_html(shown, record=text, code=javascript())


@cache
def document(name: str) -> Document:
    return Document(page(name))


@cache
def javascript() -> str:
    """Return the JavaScript of the charts; test_report.py checks that the cached copy is current."""
    return charts_code(CACHE)


def keep_charts(cache: Path) -> None:
    """Copy the JavaScript of the charts into a cache folder, so that commands under test reuse it."""
    javascript()
    with suppress(FileNotFoundError):  # there is no cache
        shutil.copytree(CACHE, cache / "charts")


def local(run: Run) -> Run:
    engine = replace(run.manifest.engine, name="local", isolated=False)
    return replace(run, manifest=replace(run.manifest, engine=engine))


class Document(HTMLParser):
    """A parsed page: elements in order, scripts, styles and text.

    `words` has all text, `shown` only the text outside of folded parts.
    """

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input", "wbr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self.shown: list[str] = []
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self.feed(text.replace("<wbr>", ""))
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        parent = self._open[-1] if self._open else ""
        if parent == "script":
            self.scripts[-1] += data
        elif parent == "style":
            self.styles.append(data)
        else:
            self.words.append(data)
            if "details" not in self._open and parent != "title":
                self.shown.append(data)

    @property
    def code(self) -> list[tuple[dict[str, str | None], str]]:
        return list(zip(self.all("script"), self.scripts, strict=True))

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if attributes.get("id")]
