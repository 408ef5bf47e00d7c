"""Run the variants of one workload as a spec asks for, and write events.

`python3 -m workloads.driver SPEC.json EVENTS.jsonl`. Exit codes: 0; 1 when anything raised, and the error
event says what; NO_GPU_EXIT.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from workloads.protocol import NO_GPU_EXIT, TENSORFLOW, TREES, EventWriter, NoGpuError, Spec

# What runs the variants in each family of images; each imports its own framework, and no other has to be
# there.
RUNNERS = {TENSORFLOW: "workloads.trial", TREES: "workloads.boosting"}

USAGE = "usage: python3 -m workloads.driver SPEC.json EVENTS.jsonl"


def main(arguments: Sequence[str]) -> int:
    """Run one trial and return the exit code."""
    if len(arguments) != 2:
        sys.stderr.write(USAGE + "\n")
        return 2
    with Path(arguments[1]).open("a", encoding="utf-8") as file:
        events = EventWriter(file)
        events.start()
        try:
            spec = read_spec(Path(arguments[0]))
            began_ns = time.monotonic_ns()
            # Imported here, not above: the start event comes first, and importing the framework is a phase.
            importlib.import_module(RUNNERS[spec.image]).run(spec, events, began_ns)
        except Exception as error:  # whatever a workload raises becomes an event
            report(events, error)
            return NO_GPU_EXIT if isinstance(error, NoGpuError) else 1
        events.write("end")
        return 0


def read_spec(path: Path) -> Spec:
    """Read a spec file.

    Raises:
        TypeError: it has fields that Spec does not have.
    """
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Spec(**{**fields, "variants": tuple(fields.get("variants", Spec.variants))})


def report(events: EventWriter, error: BaseException) -> None:
    """Write an error event, and the traceback to stderr, which is the container's log."""
    sys.stderr.write("".join(traceback.format_exception(error)))
    events.write("error", type=type(error).__name__, message=str(error) or type(error).__name__)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's and Keras' threads (a stopped fit among them) have nothing left to do.
    os._exit(code)
