"""Run folders and reports that are damaged or made to do harm: read as far as they go, or refused in a line."""

from __future__ import annotations

import base64
import json
import lzma
import random
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.reference import to_json
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.analysis.results import results_document
from harness.analysis.versus import versus
from harness.model.run import Run, Status
from harness.run.extracts import from_json
from harness.run.recording import open_run, pack_for_page
from harness.run.repeat import rerun_options, resolve_rerun
from harness.run.store import RunFolder
from reports.page import render_html, render_markdown
from reports.terminal import summary
from tests import builders
from tests.faults.injecting import (
    TO_ANY_FILE,
    cut,
    damage_json,
    damage_line,
    damaged,
    faults,
    flip,
    read_or_refused,
    soon,
)
from tests.folders import write_run
from tests.test_rerun import recorded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of three trials, one of them failed."""
    return write_run(tmp_path_factory.mktemp("whole") / "run", recorded(builders.cpu_run(trials=3))).path


@pytest.fixture(scope="module")
def document() -> dict:
    """What a page carries."""
    run = recorded(builders.cpu_run(trials=3))
    return msgspec.msgpack.decode(
        lzma.decompress(base64.b64decode(pack_for_page(analyse(run), whole=True)[0]))
    )


def as_text(document: dict) -> str:
    return base64.b64encode(lzma.compress(msgspec.msgpack.encode(document), preset=0)).decode()


def look(run: Run, *, html: bool) -> None:
    """Make of a run what people see."""
    analysis = analyse(run)
    json.dumps(results_document(analysis))
    render_markdown(analysis).encode()
    str(summary(analysis))
    if html:
        render_html(analysis, record="", code=str).encode("utf-8", "replace")


@faults(share=0.25, usual=60)
@given(chance=st.randoms(use_true_random=False))
def test_a_damaged_run_folder(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(whole, path)
    name = chance.choice(("manifest.json", "plan.json", "stops.json", "trial.json", "events.jsonl", "*.csv"))
    file = chance.choice(sorted(path.rglob(name)))
    kinds = TO_ANY_FILE
    if file.suffix == ".json":
        kinds = (damage_json,) * 6 + TO_ANY_FILE
    elif file.suffix == ".jsonl":
        kinds = (damage_line,) * 6 + TO_ANY_FILE
    chance.choice(kinds)(file, chance)
    with read_or_refused():
        run = open_run(path)
        look(run, html=chance.random() < 0.1)
        resolve_rerun(run, rerun_options(run, out=path))
        others = [trial.status for trial in run.trials if trial.id not in str(file)]
        assert others.count(Status.OK) >= 2, "one file costs no other trial"
    with soon():
        assert len(RunFolder(path).finished()) >= 2
    shutil.rmtree(path)


@faults(share=0.2, usual=55)
@given(chance=st.randoms(use_true_random=False))
def test_a_damaged_page(
    document: dict, tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    """The run that it carries is damaged, or else the file."""
    inside = chance.random() < 0.75
    try:
        text = as_text(damaged(document, chance) if inside else document)
    except (OverflowError, UnicodeEncodeError):
        assume(False)  # MessagePack cannot hold such a value
    page = tmp_path_factory.mktemp("page") / "report.html"
    page.write_text(f'<html><script id="tfbench-run" type="x">{text}</script></html>', encoding="utf-8")
    if not inside:
        chance.choice((cut, flip))(page, chance)
    with read_or_refused():
        run = open_run(page)
        look(run, html=chance.random() < 0.1)
        resolve_rerun(run, rerun_options(run, out=Path("/nowhere")))


@faults(share=0.05, usual=15)
@given(chance=st.randoms(use_true_random=False))
def test_a_damaged_extract(tmp_path_factory: pytest.TempPathFactory, chance: random.Random) -> None:
    good = extract(analyse(builders.cpu_run(trials=3)), source="a")
    text = json.dumps(damaged(json.loads(to_json(good)), chance))
    with read_or_refused():
        versus([good, from_json(text)])
