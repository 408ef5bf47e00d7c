"""Run the legs of one workload as a spec asks for, and write events.

`python3 -m workloads.driver SPEC.json EVENTS.jsonl`. Exit codes: 0; 1 when anything raised (the error event says what); NO_GPU_EXIT.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import lease
from workloads.protocol import (
    DATA,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    NO_GPU_EXIT,
    RUNG_PREFIX,
    STAGE_PREFIX,
    EventWriter,
    Spec,
)

if TYPE_CHECKING:
    from workloads.job import Job
    from workloads.turns import Pausable

USAGE = "usage: python3 -m workloads.driver SPEC.json EVENTS.jsonl"


def main(arguments: Sequence[str]) -> int:
    """Run one trial and return the exit code."""
    if len(arguments) != 2:
        sys.stderr.write(USAGE + "\n")
        return 2
    lease.hold()
    with EventWriter(Path(arguments[1])) as events:
        events.start()
        try:
            spec = read_spec(Path(arguments[0]))
            return run(spec, events)
        except Exception as error:  # whatever a workload raises becomes an event
            report(events, error)
            return 1


def read_spec(path: Path) -> Spec:
    """Read a spec file.

    Raises:
        TypeError: it has fields that Spec does not have.
    """
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Spec(**{**fields, "legs": tuple(fields.get("legs", Spec.legs))})


def report(events: EventWriter, error: BaseException) -> None:
    """Write an error event and the traceback to stderr, which is the container's log."""
    trace = "".join(traceback.format_exception(error))
    sys.stderr.write(trace)
    message = str(error) or type(error).__name__
    events.write("error", type=type(error).__name__, message=message, traceback=trace)


def run(spec: Spec, events: EventWriter) -> int:
    """Run all legs of `spec` and return the exit code."""
    began = _now()
    # Imported here, not above: the start event comes first, and the import is a phase of its own.
    from workloads import author, devices, job  # noqa: PLC0415

    try:
        names = devices.prepare(spec.device, spec.gpus)
    except devices.NoGpuError as error:
        report(events, error)
        return NO_GPU_EXIT
    strategy = devices.strategy_for(names)
    loaded = author.load(spec.workload, spec.file)
    _phase(events, IMPORT, began)
    events.write("facts", facts={**devices.facts(names, spec.seed), "workload": loaded.workload.name})
    began = _now()
    train, test = _arrays(loaded, spec)
    _phase(events, DATA, began)
    trial = job.Job(
        author=loaded, spec=spec, events=events, devices=names, strategy=strategy, train=train, test=test
    )
    failure = _legs(trial)
    if failure is not None:
        report(events, failure)
        return 1
    _extra_metrics(trial)
    events.write("end", ok=True)
    return 0


def _arrays(loaded: Any, spec: Spec) -> tuple[Any, Any]:
    """Load and preprocess the mounted arrays; (None, None) for workloads with a pipeline of their own."""
    if loaded.dataset is not None:
        return None, None
    import numpy as np  # noqa: PLC0415

    from workloads import tuning  # noqa: PLC0415

    if not spec.data_dir:
        raise ValueError(f"{loaded.workload.name} trains on arrays, but the spec has no data_dir.")
    arrays = {
        name: np.load(Path(spec.data_dir) / f"{name}.npy", mmap_mode="r")
        for name in ("x_train", "y_train", "x_test", "y_test")
    }
    params = tuning.leg_params(loaded.workload, spec, spec.legs[0], pipeline=False)
    train, test = loaded.data(arrays, params)
    return train, test


def _legs(trial: Job) -> BaseException | None:
    """Set every leg up, measure them window by window in turn, end them; return the first failure.

    A leg that fails is dropped, so that it costs the others nothing.
    """
    from workloads.turns import Pausable  # noqa: PLC0415

    running: dict[str, Pausable] = {}
    failures: list[BaseException] = []
    for leg in trial.spec.legs:
        running[leg] = Pausable(leg, _body(trial, leg))
        _resume(trial, running, leg, True, failures)
    for window in range(trial.spec.windows):
        order = list(running)
        # Each round starts with another leg, so that none always runs after the same neighbour.
        for leg in order[window % max(len(order), 1) :] + order[: window % max(len(order), 1)]:
            _resume(trial, running, leg, True, failures)
    for leg in list(running):
        _resume(trial, running, leg, False, failures)
    return failures[0] if failures else None


def _resume(
    trial: Job, running: dict[str, Pausable], leg: str, order: bool, failures: list[BaseException]
) -> None:
    import tensorflow as tf  # noqa: PLC0415

    if leg not in running:
        return
    try:
        running[leg].resume(order)
    except tf.errors.ResourceExhaustedError as error:
        del running[leg]
        if not leg.startswith(RUNG_PREFIX):
            failures.append(error)
        message = str(error).splitlines()[0]
        trial.events.write("warning", message=f"{leg}: the device's memory does not suffice: {message}")
    except Exception as error:
        del running[leg]
        failures.append(error)
        trial.events.write("warning", message=f"{leg} failed: {type(error).__name__}: {error}")
    else:
        if running[leg].ended:
            del running[leg]


def _body(trial: Job, leg: str) -> Callable[[Callable[[], Any]], None]:
    """Return the code of one leg, as turns.Pausable runs it."""
    from workloads import building, devices, tuning  # noqa: PLC0415
    from workloads.timing import Meter  # noqa: PLC0415

    declared, spec = trial.author.workload, trial.spec
    pipeline = trial.author.dataset is not None
    kind = _kind(leg, declared.task)
    # Nothing can be trained wholly where there is no dataset to go through.
    whole = spec.full and declared.data.train > 0 and declared.task == "train"
    whole = whole and leg not in (INPUT_ONLY, MODEL_ONLY) and not leg.startswith(STAGE_PREFIX)

    def body(pause: Callable[[], Any]) -> None:
        params = tuning.leg_params(declared, spec, leg, pipeline=pipeline)
        changes = tuning.leg_changes(declared, spec, leg, pipeline=pipeline)
        trial.events.write("leg", leg=leg, params=params, changes=[asdict(change) for change in changes])

        def pause_and_restore() -> bool:
            go_on = bool(pause())
            # The one switch that legs share; another leg may have turned it since.
            building.set_precision(params["precision"])
            return go_on

        meter = Meter(
            leg, spec=spec, events=trial.events, synchronise=devices.synchronise, pause=pause_and_restore,
            full=whole,
        )  # fmt: skip
        kind(trial, leg, params, meter)

    return body


def _kind(leg: str, task: str) -> Callable[..., None]:
    from workloads import inference, legs  # noqa: PLC0415

    if leg == INPUT_ONLY or leg.startswith(STAGE_PREFIX):
        return legs.input_only
    if leg == MODEL_ONLY:
        return inference.model_only if task == "infer" else legs.model_only
    return inference.infer if task == "infer" else legs.train


def _extra_metrics(trial: Job) -> None:
    if trial.author.metrics is None:
        return
    from workloads import tuning  # noqa: PLC0415

    params = tuning.leg_params(trial.author.workload, trial.spec, trial.spec.legs[0], pipeline=True)
    for name, (value, unit) in trial.author.metrics({**params, "device": trial.devices[0]}).items():
        trial.metric("", name, value, unit)


def _now() -> int:
    import time  # noqa: PLC0415

    return time.monotonic_ns()


def _phase(events: EventWriter, name: str, start_ns: int) -> None:
    events.write("phase", name=name, leg="", start_ns=start_ns, end_ns=_now())


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's and Keras' threads (a stopped fit among them) have nothing left to do.
    os._exit(code)
