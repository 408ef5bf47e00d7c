"""Compiling the stand-in for libnvidia-ml.so.1, and running the real NVML binding on it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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


@contextmanager
def probing(library: Path) -> Iterator["Probes"]:
    """Start what answers probes with the library in `library`, and end it."""
    log = library / "stderr.txt"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.nvml_standin.probe"],
            env={**os.environ, "LD_LIBRARY_PATH": str(library)},
            cwd=HERE.parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        ) as process,
    ):
        yield Probes(process=process, log=log)
        process.communicate()


@dataclass(frozen=True)
class Probes:
    """A process that has imported everything, and answers each request by a child of its own."""

    process: "subprocess.Popen[str]"
    log: Path

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"failed": "It has ended."}')
        assert "failed" not in answer, f"{answer['failed']}\n{self.log.read_text(encoding='utf-8')}"
        return answer


@dataclass(frozen=True)
class Standin:
    """The library, and a script of what it does."""

    probes: Probes
    script: Path

    def discover(self, script: str) -> dict[str, Any]:
        """Return GPUs and reason as harness.system.gpus.discover gives them."""
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
        return self.probes.ask({**request, "script": str(self.script)})


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
        result: dict[tuple[str, str], str] = {}
        for _, _, device, metric, reason in self.gaps:
            result.setdefault((device, metric), reason)
        return result
