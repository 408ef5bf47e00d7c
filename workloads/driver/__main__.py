"""Run the variants of one workload by a spec and write events.

`python3 -m workloads.driver SPEC.json EVENTS.jsonl`. Exit codes: 0 for success, 1 after an exception (see the
error event), NO_GPU_EXIT, 2 for wrong usage.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from workloads.protocol import (
    KERAS,
    LONGEST_MESSAGE,
    NO_GPU_EXIT,
    PROBES,
    TENSORFLOW,
    TREES,
    Edit,
    EventWriter,
    Fix,
    NoGpuError,
    Requests,
    Script,
    Spec,
    shortened,
)

# Image family -> module that runs the variants. Only its own framework is imported.
RUNNERS = {TENSORFLOW: "workloads.driver.tensorflow_trial", TREES: "workloads.driver.xgboost_trial"}


def main(arguments: Sequence[str]) -> int:
    """Run one trial and return the exit code."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python3 -m workloads.driver SPEC.json EVENTS.jsonl\n")
        return 2
    with Path(arguments[1]).open("a", encoding="utf-8") as file:
        events = EventWriter(file)
        events.write("start")
        try:
            spec = read_spec(Path(arguments[0]))
            events.secrets = [os.environ[name] for name in spec.secrets if len(os.environ.get(name, "")) > 3]
            _probe_host(events)
            began_ns = time.monotonic_ns()
            os.environ.update(KERAS)  # the image may have set something else
            # Imported after the start event, because importing the framework is a measured phase.
            importlib.import_module(RUNNERS[spec.image]).run(spec, events, began_ns)
        except Exception as error:  # workloads can raise anything
            report(events, error)
            return NO_GPU_EXIT if isinstance(error, NoGpuError) else 1
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


def report(events: EventWriter, error: BaseException) -> None:
    """Write an error event, and the traceback to stderr (the container's log)."""
    message = shortened(str(error) or type(error).__name__, LONGEST_MESSAGE)
    events.write("error", type=type(error).__name__, message=message)
    with suppress(OSError, ValueError):  # scripts may close it
        sys.stderr.write("".join(traceback.format_exception(error)))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # Does not wait for threads of TensorFlow and Keras, for example of a stopped fit.
    os._exit(code)
