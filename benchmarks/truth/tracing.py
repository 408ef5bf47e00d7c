"""Trace a case's training by TensorFlow's profiler, in the container and the environment of its run."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.truth.case import Case
from benchmarks.truth.running import Settings, prepared_case
from harness.engines import FILE_DIR, OUT_DIR
from harness.errors import TrialError

LIMIT_S = 180.0
POLL_S = 0.1
TRACE = "trace.xplane.pb"


def finished_trace(case: Case, settings: Settings) -> Path | None:
    """Return the case's trace if there is one, taken with the parameters that the case has now."""
    folder = settings.folder.parent / "traces" / case.name
    if not (folder / TRACE).exists():
        return None
    params = json.loads((folder / "out" / "spec.json").read_text(encoding="utf-8"))["params"]
    same = all(params.get(name) == value for name, value in case.params.items())
    return folder / TRACE if same else None


def trace_case(case: Case, settings: Settings) -> Path:
    """Trace a case and return the file, an XSpace.

    Raises:
        TfbenchError: as for `tfbench bench`; TrialError when the workload failed or left no trace.
    """
    folder = settings.folder.parent / "traces" / case.name
    shutil.rmtree(folder, ignore_errors=True)
    out = folder / "out"
    out.mkdir(parents=True)
    prepared = prepared_case(case, settings)
    try:
        job = prepared.jobs[0]
        (out / "spec.json").write_text(json.dumps(asdict(job.spec)), encoding="utf-8")
        command = ("python3", f"{FILE_DIR}/tracer.py", f"{OUT_DIR}/spec.json", f"{OUT_DIR}/trace")
        container = prepared.engine.start(replace(job.container, command=command, out=out))
        try:
            began = time.monotonic()
            while (ended := container.poll()) is None and time.monotonic() - began < LIMIT_S:
                time.sleep(POLL_S)
            (folder / "log.txt").write_text(container.log(), encoding="utf-8")
        finally:
            container.kill()
            container.remove()
    finally:
        prepared.engine.close()
    traces = sorted(out.rglob("*.xplane.pb"))
    if ended is None or ended.code != 0 or not traces:
        raise TrialError(f"{case.name} left no trace.", hint=f"See {folder}/log.txt.")
    return traces[0].replace(folder / TRACE)
