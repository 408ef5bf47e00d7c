"""Run the real driver in the TensorFlow environment and read its events."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.folders import write_files
from workloads import protocol
from workloads.variants import BASELINE, FIXES, STAGES


@dataclass(frozen=True)
class Outcome:
    events: list[dict[str, Any]]
    log: str

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            event
            for event in self.events
            if event["kind"] == kind and all(event[name] == value for name, value in fields.items())
        ]

    def per_step(self) -> dict[str, float]:
        """Return each variant's samples per step in its first window."""
        windows = self.of("window", index=0)
        return {event["variant"]: event["samples"] / event["steps"] for event in windows}

    @property
    def message(self) -> str:
        """Return the message of the error that ended the trial."""
        (event,) = self.of("error")
        assert event["type"] == "ScriptError", event
        return event["message"]

    def metric(self, variant: str, name: str) -> float:
        """Return the value of a metric, which is the same wherever the variant was read again."""
        (value,) = {event["value"] for event in self.of("metric", variant=variant, name=name)}
        return value


def environment(**more: str) -> Mapping[str, str]:
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", **more}


Drive = Callable[..., Outcome]
Execute = Callable[..., Any]
Arrays = Callable[..., str]
DEVICES = """
import sys
import tensorflow as tf
sys.path.append("workloads/components")
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * {})
"""
# Runs ("driver", arguments) or ("code", Python code); returns the exit code and the combined output.
Start = Callable[[str, Any], tuple[int, str]]


def driver(start: Start, factory: pytest.TempPathFactory) -> Drive:
    """Return a function that runs the driver on scripts and checks its exit code.

    Its arguments are the text of train.py and, by name, `others` (variant -> text), `files` beside the scripts
    (name -> text), the `name` of the script without .py, the expected exit `code` and fields of the spec.
    """

    def run(
        text: str,
        *,
        others: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        name: str = "train",
        code: int = 0,
        **spec: Any,
    ) -> Outcome:
        folder = factory.mktemp("trial")
        home = write_files(folder / "home", files or {})
        home.mkdir(exist_ok=True)
        texts = {BASELINE: text, **(others or {})}
        scripts = {
            variant: {
                "path": str(home / f"{name if variant == BASELINE else 'other'}.py"),
                "text": each,
            }
            for variant, each in texts.items()
        }
        short = {"warmup_s": 0.05, "steps": 4, "windows": 2}
        fields = {**short, "variants": list(texts), "scripts": scripts, **spec}
        (folder / "spec.json").write_text(json.dumps(fields))
        events = folder / "events.jsonl"
        ended, log = start("driver", [str(folder / "spec.json"), str(events)])
        assert ended == code, log
        with events.open(encoding="utf-8") as lines:
            outcome = Outcome(list(protocol.read_events(lines)), log)
        if code == 0:
            kinds = ("window", "left-out", "needless", "metric")
            reported = {event["variant"] for kind in kinds for event in outcome.of(kind)}
            missing = set(fields["variants"]) - reported - {STAGES, FIXES}
            assert not missing, "each variant is measured or left out"
        return outcome

    return run


@pytest.fixture(scope="session")
def warm(tf_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Run code in forks of a process that has imported TensorFlow."""
    folder = tmp_path_factory.mktemp("warm")
    command = [tf_python, "-m", "tests.tensorflow.warm_python"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(TMPDIR=str(folder)), stdin=PIPE, stdout=PIPE, text=True
    ) as server:
        requests, answers = server.stdin, server.stdout

        def start(kind: str, what: Any) -> tuple[int, str]:
            log = folder / "log"
            requests.write(json.dumps([kind, what, str(log)]) + "\n")
            requests.flush()
            return int(answers.readline()), log.read_text(encoding="utf-8", errors="replace")

        yield start
        requests.close()


@pytest.fixture(scope="session")
def plain(trees_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Start:
    folder = tmp_path_factory.mktemp("plain")

    def start(kind: str, what: Any) -> tuple[int, str]:
        arguments = ["-m", "workloads.driver", *what] if kind == "driver" else ["-c", what]
        done = subprocess.run(
            [trees_python, *arguments], cwd=ROOT, env=environment(TMPDIR=str(folder)), stdout=PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    return start


@pytest.fixture(scope="session")
def drive(warm: Start, tmp_path_factory: pytest.TempPathFactory) -> Drive:
    return driver(warm, tmp_path_factory)


@pytest.fixture(scope="session")
def drive_trees(plain: Start, tmp_path_factory: pytest.TempPathFactory) -> Drive:
    """Run the driver in the XGBoost environment, which has no TensorFlow."""
    return driver(plain, tmp_path_factory)


@pytest.fixture(scope="session")
def execute(warm: Start) -> Execute:
    """Run Python code with `devices` TensorFlow CPU devices; return the JSON on its last output line."""

    def run(code: str, devices: int = 1) -> Any:
        status, output = warm("code", DEVICES.format(devices) + code)
        assert status == 0, output
        return json.loads(output.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Make a small learnable data set, and return its folder: each class is a pattern with noise."""

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
