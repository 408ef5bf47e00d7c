"""Run the trials of one workload on one device, by their specs, and write events.

    python3 -m workloads.driver FOLDER

serves trials until it is killed: the file NEXT in the folder names that of the next one, which has its spec.json and
gets its events.jsonl. Otherwise one trial, whose exit code is 0 for success, 1 after an exception (see the error event)
or NO_GPU_EXIT; or, with a descriptor and a task, that task of a trial (see workloads/driver/trial.py):

    python3 -m workloads.driver SPEC.json EVENTS.jsonl [DESCRIPTOR TASK]
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
from typing import NoReturn

import numpy as np

from workloads.driver.measuring import report
from workloads.driver.processes import is_files_limited, work_watched
from workloads.driver.results import ResultsFile
from workloads.driver.script import ScriptError, variables_at_import
from workloads.driver.trial import Task, Trial, Work
from workloads.protocol import (
    IMPORT,
    KERAS,
    NEXT,
    NO_GPU_EXIT,
    OPENED,
    OPENED_FILE,
    PROBES,
    PROGRAMS,
    TENSORFLOW,
    TREES,
    Aim,
    Edit,
    EventWriter,
    Fix,
    Requests,
    Script,
    Spec,
    began_line,
)
from workloads.variants import BASELINE

# Image family -> module that does the tasks of a trial. Only its own framework is imported.
RUNNERS = {TENSORFLOW: "workloads.driver.tensorflow_task", TREES: "workloads.driver.xgboost_task"}
# What measures the machine itself, without scripts.
CAPABILITIES = "workloads.driver.capability"
# How often a waiting server looks for the next trial.
_POLL_S = 0.05
# How long each part of a probe of the host lasts. Tests shorten it.
PROBE_PART_S = 0.06


def main(arguments: Sequence[str]) -> int:
    """Serve trials, run one, or do a task of one; return the exit code."""
    match arguments:
        case [folder]:
            serve(Path(folder))
        case [spec, events]:
            return run_trial(Path(spec), Path(events))
        case [spec, events, descriptor, task]:
            do_task(Path(spec), Path(events), int(descriptor), Task.of(task))
    sys.stderr.write("usage: python3 -m workloads.driver FOLDER | SPEC.json EVENTS.jsonl [DESCRIPTOR TASK]\n")
    return 2


def serve(folder: Path) -> NoReturn:
    """Run one trial after another."""
    os.environ[PROGRAMS] = str(folder / "programs")
    done = ""
    while True:
        name = ""
        with suppress(FileNotFoundError):
            name = (folder / NEXT).read_text(encoding="utf-8")
        if name == done:
            time.sleep(_POLL_S)
            continue
        sys.stdout.write(began_line(name))
        sys.stdout.flush()
        run_trial(folder / name / "spec.json", folder / name / "events.jsonl")
        done = name


def run_trial(spec_path: Path, events_path: Path) -> int:
    """Run one trial; return its exit code."""
    with events_path.open("a", encoding="utf-8") as file:
        events = EventWriter(file)
        results = ResultsFile(events_path)
        events.write("start")
        os.environ[OPENED] = str(events_path.with_name(OPENED_FILE))
        try:
            spec = _prepared(spec_path, events)
            _probe_host(events)
            began_ns = time.monotonic_ns()
            # Imported after the start event, because importing the framework is a measured phase.
            work, imported = _work(spec)
            if imported:
                events.phase(IMPORT, began_ns)
            command = [sys.executable, "-m", "workloads.driver", str(spec_path), str(events_path)]
            errors = Trial(spec, events, results, work, command).run().errors
            _probe_host(events)
        except Exception as error:  # an image can lack anything
            report(events, error)
            errors = [type(error).__name__]
        if not errors:
            events.write("end")
        code = (NO_GPU_EXIT if "NoGpuError" in errors else 1) if errors else 0
        events.write("exit", code=code)
        return code


def do_task(spec_path: Path, events_path: Path, descriptor: int, task: Task) -> NoReturn:
    """Do one task of a trial in this process."""
    with events_path.open("a", encoding="utf-8") as file:
        events = EventWriter(file)
        spec = _prepared(spec_path, events)
        results = ResultsFile(events_path).read()
        events.listener = results.add
        work_watched(partial(_work(spec)[0], task, spec, events, results), descriptor)


def _prepared(path: Path, events: EventWriter) -> Spec:
    spec = read_spec(path)
    events.planned = spec.variants
    os.environ.update(KERAS)  # the image may have set something else
    if BASELINE in spec.scripts:
        with suppress(SyntaxError, ValueError, RecursionError):
            os.environ.update(variables_at_import(spec.scripts[BASELINE].text))
    return spec


def _work(spec: Spec) -> tuple[Work, bool]:
    """Return what does the tasks of a trial, and whether its framework had to be imported."""
    name = RUNNERS[spec.image] if spec.scripts else CAPABILITIES
    imported = name not in sys.modules
    try:
        work: Work = importlib.import_module(name).work
    except ModuleNotFoundError as error:
        raise ScriptError(
            f"The image has no module {error.name}. Build it FROM one of ours, or leave --image out."
        ) from error
    return work, imported


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
    while (passed := time.perf_counter() - began) < PROBE_PART_S:
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
            aim=Aim(each["aim"]),
        )
        for variant, each in fields.get("fixes", {}).items()
    }
    if fields.get("requests"):
        fields["requests"] = Requests(**fields["requests"])
    return Spec(**{**fields, "variants": tuple(fields.get("variants", Spec.variants))})


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except OSError as error:
        if not is_files_limited(error):
            raise
        sys.stderr.write(
            "The engine limits the size of files: raise RLIMIT_FSIZE, in Docker's default-ulimits.\n"
        )
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # Does not wait for threads of TensorFlow and Keras, for example of a stopped fit.
    os._exit(code)
