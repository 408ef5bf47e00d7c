"""One driver serves trial after trial of a container."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tensorflow.conftest import environment
from tests.tensorflow.texts import FIT
from workloads.protocol import NEXT, TENSORFLOW, TREES, began_line, read_events
from workloads.variants import BASELINE, TUNED

pytestmark = pytest.mark.tensorflow

TRAIN = """
import numpy as np
import xgboost
x = np.random.default_rng(0).random((64, 4), np.float32)
xgboost.train({}, xgboost.DMatrix(x, label=x[:, 0]))
"""
LIMIT_S = 120

# Only programs of GPUs are kept, and there is none here.
COMPILED = (
    "import os\n"
    "os.environ['TF_XLA_FLAGS'] = os.environ.get('TF_XLA_FLAGS', '').replace('=GPU', '=CPU')\n"
    + FIT.replace("made()", "made(jit_compile=True)")
)


@contextmanager
def serving(python: Path, folder: Path) -> Iterator[subprocess.Popen]:
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [python, "-m", "workloads.driver", folder],
            cwd=ROOT,
            env=environment(TMPDIR=str(folder)),
            stdout=log,
            stderr=log,
        ) as server,
    ):
        try:
            yield server
        finally:
            server.kill()


def announce(folder: Path, name: str, text: str, **fields: object) -> list[dict]:
    """Let the driver run a trial; return its events when it has ended."""
    own = folder / name
    own.mkdir()
    spec = {
        "scripts": {BASELINE: {"path": str(own / "train.py"), "text": text}},
        "image": TREES,
        "steps": 3,
        "windows": 1,
        "warmup_s": 0.01,
        **fields,
    }
    (own / "spec.json").write_text(json.dumps(spec))
    (folder / NEXT).write_text(name)
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if (own / "events.jsonl").exists():
            with (own / "events.jsonl").open() as lines:
                events = list(read_events(lines))
            if events and events[-1]["kind"] == "exit":
                return events
        time.sleep(0.02)
    raise TimeoutError(name)


def test_trials_are_served_one_after_another_and_the_framework_is_imported_once(trees_python, tmp_path):
    with serving(trees_python, tmp_path) as server:
        runs = [
            announce(tmp_path, name, text)
            for name, text in (("one", TRAIN), ("fails", "raise KeyError('mine')"), ("two", TRAIN))
        ]
        assert server.poll() is None
    assert [events[-1]["code"] for events in runs] == [0, 1, 0]
    assert [sum(each["kind"] == "window" for each in events) for events in runs] == [1, 0, 1]
    imports = [
        [each for each in events if each["kind"] == "phase" and each["name"] == "import"] for events in runs
    ]
    (first,), *later = imports
    assert first["start_ns"] < first["end_ns"]
    assert later == [[], []]
    output = (tmp_path / "log").read_text()
    places = [output.index(began_line(name)) for name in ("one", "fails", "two")]
    assert places == sorted(places)
    assert places[1] < output.index("KeyError: 'mine'") < places[2]


def test_later_readings_load_what_the_first_has_compiled_and_each_script_has_its_own(tf_python, tmp_path):
    scripts = {
        variant: {"path": str(tmp_path / "train.py"), "text": COMPILED} for variant in (BASELINE, TUNED)
    }
    fields = {"image": TENSORFLOW, "variants": [BASELINE, TUNED], "scripts": scripts}
    programs = tmp_path / "programs"
    found = []
    with serving(tf_python, tmp_path):
        for name, keeps in (("other", False), ("first", True), ("second", True)):
            events = announce(tmp_path, name, COMPILED, **fields, keeps_programs=keeps)
            assert events[-1]["code"] == 0, (tmp_path / "log").read_text()
            found.append({path: path.stat().st_mtime_ns for path in programs.glob("*/*.pb")})
    assert not found[0]
    assert {path.parent.name for path in found[1]} == {BASELINE, TUNED}
    # A later reading may reach the last, smaller batch where the first did not, and compiles that.
    assert found[2].items() >= found[1].items(), "none was compiled again"
