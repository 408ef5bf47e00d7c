"""Run the real driver in the environment that has TensorFlow, and read back what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import protocol

ROOT = Path(protocol.__file__).parent.parent


@dataclass(frozen=True)
class Outcome:
    """How one driver process went."""

    code: int
    events: list[dict[str, Any]]
    log: str

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """Return the events of a kind whose fields are as given."""
        return [
            event
            for event in self.events
            if event["kind"] == kind and all(event[name] == value for name, value in fields.items())
        ]

    def metric(self, variant: str, name: str) -> float:
        """Return the one metric of that name."""
        (event,) = self.of("metric", variant=variant, name=name)
        return event["value"]


def environment(**more: str) -> Mapping[str, str]:
    """Return a child's environment: no GPU, and a quiet TensorFlow."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", **more}


Drive = Callable[..., Outcome]


def driver(python: Path, factory: pytest.TempPathFactory) -> Drive:
    """Return what runs the driver in an environment, with a spec given as fields of protocol.Spec."""

    def run(**spec: Any) -> Outcome:
        folder = factory.mktemp("trial")
        fields = {"warmup_s": 0.05, "steps": 4, "windows": 2, **spec}
        (folder / "spec.json").write_text(json.dumps(fields))
        events = folder / "events.jsonl"
        done = subprocess.run(
            [python, "-m", "workloads.driver", folder / "spec.json", events],
            cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        with events.open(encoding="utf-8") as lines:
            outcome = Outcome(done.returncode, list(protocol.read_events(lines)), done.stdout + done.stderr)
        if outcome.code == 0:
            told = {event["variant"] for kind in ("window", "left-out") for event in outcome.of(kind)}
            assert told.issuperset(fields.get("variants", ())), "each variant is measured or left out"
        return outcome

    return run


@pytest.fixture(scope="session")
def drive(tf_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Drive:
    """Run the driver in the environment that has TensorFlow."""
    return driver(tf_python, tmp_path_factory)


@pytest.fixture(scope="session")
def drive_trees(trees_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Drive:
    """Run the driver in the environment that has XGBoost and no TensorFlow."""
    return driver(trees_python, tmp_path_factory)


@pytest.fixture(scope="session")
def script(tf_python: Path) -> Callable[[str], Any]:
    """Run Python code that prints JSON on its last line in the TensorFlow environment; return that."""
    return scripts(tf_python)


@pytest.fixture(scope="session")
def trees_script(trees_python: Path) -> Callable[[str], Any]:
    """Do the same in the environment that has XGBoost."""
    return scripts(trees_python)


def scripts(python: Path) -> Callable[[str], Any]:
    """Return what runs Python code in an environment."""

    def run(code: str) -> Any:
        done = subprocess.run(
            [python, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Make a small dataset that can be learnt: each class is a pattern, seen through noise."""

    def make(shape: tuple[int, ...], classes: int, train: int = 1000, test: int = 300) -> str:
        folder = tmp_path_factory.mktemp("data")
        random = np.random.default_rng(7)
        patterns = random.integers(0, 256, (classes, *shape))
        for split, count in (("train", train), ("test", test)):
            labels = random.integers(0, classes, count)
            noise = random.normal(0, 30, (count, *shape))
            images = np.clip(0.7 * patterns[labels] + 38 + noise, 0, 255)
            np.save(folder / f"x_{split}.npy", images.astype(np.uint8))
            np.save(folder / f"y_{split}.npy", labels.astype(np.uint8))
        return str(folder)

    return make
