"""Compiling the stand-in for libnvidia-ml.so.1, and running the real NVML binding on it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
UUID = "GPU-11111111-2222-3333-4444-555555555555"
ONE_CARD = f"card 0 {UUID} -1\n"


def build(folder: Path) -> Path:
    """Compile the library into `folder`; without a compiler the test that needs it fails."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.fail(
            "These tests need a C compiler for a stand-in of NVML: install gcc (apt-get install gcc)."
        )
    sources = sorted(str(path) for path in HERE.glob("*.c"))
    command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1"), *sources, "-lpthread"], check=True)
    return folder


@dataclass(frozen=True)
class Standin:
    """The library, and a script of what it does."""

    library: Path
    script: Path

    def discover(self, script: str) -> dict[str, Any]:
        """Return cards and reason as harness.gpus.discover gives them."""
        return self._probe(script, {"discover": True})

    def read(
        self,
        script: str,
        *sources: str,
        reads: int = 3,
        gpus: Mapping[str, str] | None = None,
        pid: int | None = None,
        step_s: float = 0.1,
        pause_s: float = 0.0,
    ) -> "Reading":
        """Start sources, read them `reads` times and stop them.

        Between two reads the sources' clock moves by `step_s`, and `pause_s` really pass.
        """
        request = {
            "discover": False,
            "sources": sources,
            "reads": reads,
            "gpus": gpus or {"gpu0": UUID},
            "pid": pid,
            "step_s": step_s,
            "pause_s": pause_s,
        }
        return Reading(**self._probe(script, request))

    def trial(self, script: str, folder: Path, rows: int) -> dict[str, Any]:
        """Sample with all sources into `folder` until "nvml" has `rows` rows; return gaps and cost."""
        request = {"discover": False, "folder": str(folder), "gpus": {"gpu0": UUID}, "rows": rows}
        return self._probe(script, request)

    def _probe(self, script: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self.script.write_text(script)
        found = subprocess.run(
            [sys.executable, "-m", "tests.nvml_standin.probe", json.dumps(request)],
            env={**os.environ, "LD_LIBRARY_PATH": str(self.library), "NVML_STANDIN": str(self.script)},
            cwd=HERE.parent.parent,
            check=False,
            capture_output=True,
            text=True,
        )
        assert found.returncode == 0, found.stderr
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer


@dataclass(frozen=True)
class Reading:
    """What sources gave; gaps are (when in ns, source, device, metric, reason)."""

    columns: Mapping[str, Mapping[str, Sequence[str]]]
    samples: Sequence[Mapping[str, Any]]
    gaps: Sequence[tuple[int, str, str, str, str]]

    def values(self, metric: str, device: str = "gpu0") -> list[float | None]:
        """Return a metric through time; None where a sample lacks it."""
        return [each["values"].get(metric) for each in self.samples if each["device"] == device]

    def reasons(self) -> dict[tuple[str, str], str]:
        """Return (device, metric) -> the first reason given."""
        found: dict[tuple[str, str], str] = {}
        for _, _, device, metric, reason in self.gaps:
            found.setdefault((device, metric), reason)
        return found
