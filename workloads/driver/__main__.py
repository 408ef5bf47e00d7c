"""Run the variants of one workload by a spec and write events.

`python3 -m workloads.driver SPEC.json EVENTS.jsonl`. Exit codes: 0 for success, 1 after an exception (see the
error event), NO_GPU_EXIT, 2 for wrong usage. With a descriptor and a task as well, it does that task of a trial; see
workloads/driver/trial.py.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from workloads.driver.ladder import report
from workloads.driver.processes import work_watched
from workloads.driver.results import Results, ResultsFile
from workloads.driver.trial import Task, Trial, Work
from workloads.protocol import (
    IMPORT,
    KERAS,
    NO_GPU_EXIT,
    PROBES,
    TENSORFLOW,
    TREES,
    Edit,
    EventWriter,
    Fix,
    Requests,
    Script,
    Spec,
)

# Image family -> module that does the tasks of a trial. Only its own framework is imported.
RUNNERS = {TENSORFLOW: "workloads.driver.tensorflow_task", TREES: "workloads.driver.xgboost_task"}
_USAGE = "usage: python3 -m workloads.driver SPEC.json EVENTS.jsonl\n"


def main(arguments: Sequence[str]) -> int:
    """Run one trial, or a task of one, and return the exit code."""
    if len(arguments) not in (2, 4):
        sys.stderr.write(_USAGE)
        return 2
    spec_path, events_path = map(Path, arguments[:2])
    with events_path.open("a", encoding="utf-8") as file:
        events = EventWriter(file)
        results = ResultsFile(events_path)
        if len(arguments) == 4:
            spec = _prepared(spec_path, events)
            task = Task.of(arguments[3])
            results.read()
            events.listener = results.results.add
            work_watched(partial(_work(spec), task, spec, events, results.results), int(arguments[2]))
        events.write("start")
        try:
            spec = _prepared(spec_path, events)
            _probe_host(events)
            began_ns = time.monotonic_ns()
            # Imported after the start event, because importing the framework is a measured phase.
            work = _work(spec)
            events.phase(IMPORT, began_ns)
            command = [sys.executable, "-m", "workloads.driver", *arguments]
            done = Trial(spec, events, results, work, command).run()
        except Exception as error:  # an image can lack anything
            report(events, error)
            return 1
        return _end(events, done)


def _prepared(path: Path, events: EventWriter) -> Spec:
    spec = read_spec(path)
    events.planned = spec.variants
    os.environ.update(KERAS)  # the image may have set something else
    return spec


def _work(spec: Spec) -> Work:
    work: Work = importlib.import_module(RUNNERS[spec.image]).work
    return work


def _end(events: EventWriter, done: Results) -> int:
    if done.errors:
        return NO_GPU_EXIT if "NoGpuError" in done.errors else 1
    _probe_host(events)
    events.write("end")
    return 0


def _probe_host(events: EventWriter) -> None:
    """Write the rate, in calls per second, of each part of a short probe: interpreter, memory, products.

    A neighbour, a quota or a lower clock slows the probe and the workload alike. Without it, a slow period of the
    host reads as a slow workload.
    """
    # Larger than the caches of a core.
    source = np.ones(32 << 20, np.uint8)
    target = np.zeros_like(source)
    matrix = np.full((96, 96), 0.5, np.float32)  # small enough for one thread
    parts: tuple[Callable[[], object], ...] = (
        lambda: sum(number & 7 for number in range(2000)),
        lambda: np.copyto(target, source),
        lambda: matrix @ matrix,
    )
    for name, part in zip(PROBES, parts, strict=True):
        part()
        events.metric("", name, _rate(part))


def _rate(part: Callable[[], object]) -> float:
    began, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < 0.06:
        part()
        calls += 1
    return calls / passed


def read_spec(path: Path) -> Spec:
    """Read a spec file.

    Raises:
        TypeError: unknown fields.
    """
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["scripts"] = {variant: Script(**each) for variant, each in fields["scripts"].items()}
    fields["fixes"] = {
        variant: Fix(
            edits=tuple(Edit(**{**edit, "site": tuple(edit["site"])}) for edit in each["edits"]),
            answers=each["answers"],
        )
        for variant, each in fields.get("fixes", {}).items()
    }
    if fields.get("requests"):
        fields["requests"] = Requests(**fields["requests"])
    return Spec(**{**fields, "variants": tuple(fields.get("variants", Spec.variants))})


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # Does not wait for threads of TensorFlow and Keras, for example of a stopped fit.
    os._exit(code)
