import base64
import json
import lzma
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.reference import to_json
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.analysis.versus import versus
from harness.model.run import Run, Status
from harness.options import Options
from harness.run.events import EventTail
from harness.run.recording import open_run, pack_for_page, read_extract_file
from harness.run.repeat import rerun_options, resolve_rerun
from reports.exports import results_document
from reports.page import render_html, render_markdown
from reports.terminal import summary
from tests import builders
from tests.faults.injecting import (
    FILE_DAMAGES,
    change_bytes,
    damage_arrays,
    damage_cell,
    damage_json,
    damage_line,
    damaged,
    faults,
    succeeds_or_user_error,
    truncate,
)
from tests.folders import write_run
from tests.test_rerun_and_resume import recorded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("intact") / "run", recorded(builders.cpu_run(trials=3))).path


@pytest.fixture(scope="module")
def document() -> dict:
    """The data embedded in a page."""
    text, _ = pack_for_page(analyse(recorded(builders.cpu_run(trials=3))), whole=True)
    return msgspec.msgpack.decode(lzma.decompress(base64.b64decode(text)))


def embedded_text(document: dict) -> str:
    return base64.b64encode(lzma.compress(msgspec.msgpack.encode(document), preset=0)).decode()


def render(run: Run, *, html: bool) -> None:
    analysis = analyse(run)
    json.dumps(results_document(analysis))
    render_markdown(analysis).encode()
    str(summary(analysis))
    if html:
        render_html(analysis, record="", code="").encode("utf-8", "replace")


@faults(share=0.3, default=40)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_run_folder(intact, tmp_path_factory, chance):
    path = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(intact, path)
    name = chance.choice(("manifest.json", "plan.json", "stops.json", "trial.json", "events.jsonl", "*.csv"))
    file = chance.choice(sorted(path.rglob(name)))
    kinds = FILE_DAMAGES
    if file.suffix == ".json":
        kinds = (damage_json,) * 6 + FILE_DAMAGES
    elif file.suffix == ".jsonl":
        kinds = (damage_line,) * 6 + FILE_DAMAGES
    elif file.suffix == ".csv":
        kinds = (damage_cell,) * 6 + FILE_DAMAGES
    chance.choice(kinds)(file, chance)
    with succeeds_or_user_error():
        if file.suffix == ".jsonl":
            EventTail(file).read()
        run = open_run(path)
        render(run, html=chance.random() < 0.1)
        resolve_rerun(run, rerun_options(run, Options(out=path)))
        others = [trial.status for trial in run.trials if trial.id not in str(file)]
        assert others.count(Status.OK) >= 2, "other trials are not affected"
    shutil.rmtree(path)


@faults(share=0.2, default=20)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_page(document, tmp_path_factory, chance):
    damage_run = chance.random() < 0.75
    damage = chance.choice((damaged, damage_arrays))
    try:
        text = embedded_text(damage(document, chance) if damage_run else document)
    except (OverflowError, UnicodeEncodeError):
        assume(False)  # MessagePack cannot represent such a value
    page = tmp_path_factory.mktemp("page") / "report.html"
    page.write_text(f'<html><script id="tfbench-run" type="x">{text}</script></html>', encoding="utf-8")
    if not damage_run:
        chance.choice((truncate, change_bytes))(page, chance)
    with succeeds_or_user_error():
        run = open_run(page)
        render(run, html=chance.random() < 0.1)
        resolve_rerun(run, rerun_options(run, Options(out=Path("/nowhere"))))


@faults(share=0.05, default=15)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_extract(tmp_path_factory, chance):
    good = replace(extract(analyse(builders.cpu_run(trials=3))), source="a")
    text = json.dumps(damaged(json.loads(to_json(good)), chance))
    with succeeds_or_user_error():
        versus([good, read_extract_file(text)])
