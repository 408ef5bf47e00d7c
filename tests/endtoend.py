"""Run the real command line as a process, with small scripts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from harness.model.run import Run, Status
from harness.run.store import read_run
from harness.system.shared_files import LOCK_ENV
from tests.conftest import ROOT

TIMEOUT_S = 240.0

SCRIPT = """
import os
import time

import keras
import numpy as np

BATCH_SIZE = 32
{body}
x, y = np.random.rand(512, 8).astype("float32"), np.arange(512) % 4
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, batch_size=BATCH_SIZE)
model.evaluate(x[:128], y[:128])
"""

# Its framework is imported in a second. That of the other takes longer than all the rest of a short trial.
TREES_SCRIPT = """
# /// tfbench
# image = "trees"
# ///
import os
import time

import numpy as np
import xgboost

{body}
x = np.random.default_rng(0).random((512, 8), np.float32)
xgboost.train({{}}, xgboost.DMatrix(x, label=x[:, 0]))
"""


def script(folder: Path, name: str, body: str = "", text: str = SCRIPT) -> Path:
    """Write a script that first runs `body`; it is readable by the container's user."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    path = folder / f"{name}.py"
    path.write_text(text.format(body=body), encoding="utf-8")
    path.chmod(0o644)
    return path


@dataclass(kw_only=True)
class Tfbench:
    """A measuring command in the smoke profile on the CPU, with its own run folders and machine lock."""

    folder: Path
    engine: str
    arguments: tuple[str | Path, ...] = ()
    command: str = "bench"
    machine: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Tfbench:
        (self.folder / "tmp").mkdir(exist_ok=True)
        (self.folder / "tmp").chmod(0o755)
        # Processes started in the background by a shell ignore Ctrl-C, which the command would inherit.
        options = [
            "--profile", "smoke", "--engine", self.engine, "--device", "cpu", "--data", "procedural",
            "--no-cloud-metadata", "--machine" if self.machine else "--no-machine", "--out", self.folder / "runs",
        ]  # fmt: skip
        if "--resume" in self.arguments:
            options = []
        elif self.command == "rerun":
            options = ["--yes", "--engine", self.engine, "--out", self.folder / "again"]
        command = [
            "env", "--default-signal=INT", sys.executable, "-m", "harness", self.command, *options, *self.arguments,
        ]  # fmt: skip
        lock = {LOCK_ENV: str(self.folder / "tfbench.lock")}
        isolated = {"TMPDIR": str(self.folder / "tmp"), "COLUMNS": "200", **lock}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, **isolated, **self.environment},
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def run_path(self) -> Path:
        return max(path.parent for path in (self.folder / "runs").glob("*/manifest.json"))

    @property
    def run_id(self) -> str:
        return self.run_path.name

    def read(self) -> Run:
        return read_run(self.run_path)

    @property
    def statuses(self) -> dict[str, Status]:
        return {trial.id: trial.status for trial in self.read().trials}

    def trial_started(self, trial_id: str) -> bool:
        return any((self.folder / "runs").glob(f"*/trials/{trial_id}/out/events.jsonl"))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true; fail if the command ends first."""
        wait_until(lambda: self.process.poll() is not None or condition())
        assert self.process.poll() is None, "".join(self.process.communicate())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out, err


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.05)
