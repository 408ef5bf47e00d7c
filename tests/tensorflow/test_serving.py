"""One driver serves trial after trial of a container."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.tensorflow.conftest import environment
from workloads.protocol import NEXT, TREES, began_line, read_events
from workloads.variants import BASELINE

pytestmark = pytest.mark.tensorflow

TRAIN = """
import numpy as np
import xgboost
x = np.random.default_rng(0).random((64, 4), np.float32)
xgboost.train({}, xgboost.DMatrix(x, label=x[:, 0]))
"""
LIMIT_S = 120


def announce(folder: Path, name: str, text: str) -> list[dict]:
    """Let the driver run a trial; return its events when it has ended."""
    own = folder / name
    own.mkdir()
    spec = {
        "scripts": {BASELINE: {"path": str(own / "train.py"), "text": text}},
        "image": TREES,
        "steps": 3,
        "windows": 1,
        "warmup_s": 0.01,
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
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [trees_python, "-m", "workloads.driver", tmp_path],
            cwd=ROOT,
            env=environment(),
            stdout=log,
            stderr=log,
        ) as server,
    ):
        try:
            runs = [
                announce(tmp_path, name, text)
                for name, text in (("one", TRAIN), ("fails", "raise KeyError('mine')"), ("two", TRAIN))
            ]
            assert server.poll() is None
        finally:
            server.kill()
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
