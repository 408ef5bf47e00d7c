"""Read a container's event file, and tell how its trial ended. Well-formed events before an error are kept."""

from __future__ import annotations

import io
import math
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.engines import Exit
from harness.errors import EngineError, Interrupted
from harness.model.run import (
    MAX_SAMPLES_PER_S,
    Metric,
    Phase,
    RequestTimes,
    Scalar,
    Status,
    StepTimes,
    VariantInfo,
    VariantScript,
    Window,
)
from harness.run.json_values import from_plain
from harness.untrusted import open_regular, sanitized
from workloads.protocol import (
    FIX_PREFIX,
    FIXES,
    LONGEST_MESSAGE,
    NO_GPU_EXIT,
    STAGE_PREFIX,
    STAGES,
    ProtocolError,
    read_events,
    reason_of,
    shortened,
)

MAX_BYTES = 256 << 20
MAX_MESSAGE = 300  # TensorFlow errors can have hundreds of lines; log.txt has them in full
# Characters in one text, or a whole script, values in one mapping or list, and characters in all events of a trial.
MAX_TEXT, MAX_SCRIPT = LONGEST_MESSAGE, 200_000
MAX_ENTRIES = 500
MAX_CHARACTERS = 8_000_000
# Further warnings of a trial are dropped.
MAX_WARNINGS = 100
# Shells and engines add this to the number of a signal that ended a process; the local engine negates the number.
FIRST_SIGNAL = 128
# Event fields that are lists of durations.
_ARRAYS = ("step_ns", "latency_ns")
# Event kind -> name of the list in EventLog, and the type of its items.
_LISTS: Mapping[str, tuple[str, type[Any]]] = {
    "variant": ("variants", VariantInfo),
    "script": ("scripts", VariantScript),
    "phase": ("phases", Phase),
    "window": ("windows", Window),
    "steps": ("steps", StepTimes),
    "requests": ("requests", RequestTimes),
    "metric": ("metrics", Metric),
}

# Errors raised by malformed lines: ProtocolError (a ValueError), huge numbers (OverflowError), deep nesting
# (RecursionError).
_MALFORMED = (TypeError, ValueError, OverflowError, RecursionError)


@dataclass(slots=True, kw_only=True)
class EventLog:
    """Events reported by a container.

    Attributes:
        left_out: planned variant that could not be measured -> reason.
        needless: planned variants that the driver skipped as uninformative.
        problem: why reading stopped early, "" if the whole file is valid.
        characters: approximate total size of the events.
        started: whether there is a "start" event, which is the first.
        error: the last error event, or None.
        ended: whether there is an "end" event, which successful trials write.
    """

    facts: dict[str, Scalar] = field(default_factory=dict)
    variants: list[VariantInfo] = field(default_factory=list)
    scripts: list[VariantScript] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    steps: list[StepTimes] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    requests: list[RequestTimes] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    needless: set[str] = field(default_factory=set)
    started: bool = False
    error: Mapping[str, Any] | None = None
    ended: bool = False
    problem: str = ""
    characters: int = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Check and add an event.

        Raises:
            ValueError: its values are impossible, or there are too many.
        """
        plain = {name: value for name, value in event.items() if name not in _ARRAYS}
        _check_values(plain.values())
        self.characters += len(str(plain))
        if self.characters > MAX_CHARACTERS:
            raise ProtocolError(f"more than {MAX_CHARACTERS:,} characters of events")
        longest = MAX_SCRIPT if event["kind"] == "script" else MAX_TEXT
        self._store({**event, **sanitized(plain, longest)})

    def parts(self) -> dict[str, Any]:
        """Return the fields of a Trial that its container reports."""
        lists = (*(name for name, _ in _LISTS.values()), "warnings")
        return {name: tuple(getattr(self, name)) for name in lists} | {
            "facts": self.facts,
            "left_out": self.left_out,
        }

    def _store(self, event: Mapping[str, Any]) -> None:
        kind = event["kind"]
        if kind in _LISTS:
            name, type_ = _LISTS[kind]
            value = from_plain(event, type_, _durations)
            _check_times(value)
            if isinstance(value, VariantInfo):
                # A variant that XLA cannot compile is started again without XLA.
                self.variants = [each for each in self.variants if each.variant != value.variant]
            getattr(self, name).append(value)
            return
        match kind:
            case "start":
                self.started = True
            case "facts":
                self.facts |= {k: v for k, v in event["facts"].items() if isinstance(v, Scalar)}
            case "warning":
                self.warnings += [event["message"]] if len(self.warnings) < MAX_WARNINGS else []
            case "left-out":
                self.left_out[event["variant"]] = event["reason"]
            case "needless":
                self.needless.add(event["variant"])
            case "error":
                self.error = event
            case "end":
                self.ended = True


def _check_values(values: Collection[Any]) -> None:
    """Check that numbers are finite and fit in 64 bits, and that there are not too many values.

    Raises:
        ProtocolError: the check failed.
    """
    if len(values) > MAX_ENTRIES:
        raise ProtocolError(f"more than {MAX_ENTRIES} values in one place")
    for value in values:
        if isinstance(value, dict):
            _check_values(value.values())
        elif isinstance(value, list):
            _check_values(value)
        elif isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) < 1 << 63):
            raise ProtocolError("a number that is not finite or too large")


def _check_times(value: object) -> None:
    if isinstance(value, (Phase, Window, RequestTimes)) and not 0 <= value.start_ns <= value.end_ns:
        raise ProtocolError("a time span that ends before it begins")
    if not isinstance(value, Window):
        return
    length_ns = value.end_ns - value.start_ns
    if min(value.steps, value.samples, length_ns) < 1:
        raise ProtocolError("a window without steps, samples or length")
    if value.samples * 1e9 > MAX_SAMPLES_PER_S * length_ns:
        raise ProtocolError("a window with an impossible speed")


def _durations(values: Any) -> NDArray[np.int64]:
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1:
        raise ProtocolError("durations are not a plain list")
    if array.size and array.min() < 0:
        raise ProtocolError("a negative duration")
    return array


def read_log(path: Path) -> EventLog:
    """Read an event file up to the first invalid event; a missing file gives an empty log with a problem."""
    log = EventLog()
    try:
        with open_regular(path, follow=False) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                log.problem = f"the event file is larger than {MAX_BYTES >> 20} MiB"
                return log
            lines = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")
            for event in read_events(lines):
                log.add(event)
    except FileNotFoundError:
        log.problem = "the workload wrote no events"
    except OSError as error:
        log.problem = f"the event file cannot be read: {error.strerror}"
    except _MALFORMED as error:
        log.problem = sanitized(str(error), MAX_TEXT)
    if not log.problem and not log.started:
        log.problem = "the workload wrote no events"
    return log


@dataclass(slots=True)
class EventTail:
    """Follow a growing event file, from `offset` bytes on."""

    path: Path
    offset: int = 0

    def read(self) -> list[Mapping[str, Any]]:
        """Return complete events written since the last call; invalid lines are skipped."""
        try:
            with open_regular(self.path, follow=False) as file:
                file.seek(self.offset)
                chunk = file.read(MAX_BYTES)
        except OSError:
            return []
        complete = chunk[: chunk.rfind(b"\n") + 1]
        self.offset += len(complete)
        events: list[Mapping[str, Any]] = []
        for line in complete.splitlines(keepends=True):
            try:
                events += read_events(iter([line.decode("utf-8")]))
            except _MALFORMED:
                continue
        return events


def trial_outcome(
    exit_: Exit | None,
    log: EventLog,
    cause: BaseException | None,
    memory_bytes: int | None,
    variants: Collection[str],
) -> tuple[Status, str]:
    """Return a trial's status, and a message that ends with what to try ("" for success).

    `cause` is the EngineError, Interrupted or KeyboardInterrupt that ended the trial, or None. A trial is successful
    if each of the planned `variants` was measured or left out with a reason, and at least one was measured.
    """
    if isinstance(cause, EngineError):
        return Status.ENGINE_LOST, f"The engine failed: {cause}"
    if cause is not None or exit_ is None:
        told = (
            cause.message if isinstance(cause, Interrupted) else "The run was interrupted during this trial."
        )
        return Status.INTERRUPTED, told
    return _failed(exit_, log, memory_bytes) or _incomplete(log, variants) or (Status.OK, "")


def _failed(exit_: Exit, log: EventLog, memory_bytes: int | None) -> tuple[Status, str] | None:
    """Return how the process of a trial failed; None if it exited with 0 and without an error."""
    text = _error(log.error) if log.error else ""
    if exit_.out_of_memory:
        limit = f" of {memory_bytes / 2**30:.1f} GiB" if memory_bytes else ""
        result = f"The trial exceeded its memory limit{limit}. Raise --memory or lower the batch size."
        return Status.OUT_OF_MEMORY, result
    if exit_.code == NO_GPU_EXIT:
        result = text or "TensorFlow did not find the GPU."
        return Status.NO_GPU, f"{result} Run `tfbench doctor` to see what is missing."
    if log.error and _is_out_of_memory(str(log.error["type"]), str(log.error["message"])):
        advice = "Lower the batch size, or use a device with more memory."
        return Status.OUT_OF_MEMORY, f"The workload ran out of memory. {text} {advice}"
    if text:
        return Status.FAILED, f"{text} See log.txt for the traceback."
    if exit_.code == 0:
        return None
    number = exit_.code - FIRST_SIGNAL if exit_.code > FIRST_SIGNAL else -exit_.code
    name = {int(each): f" ({each.name})" for each in signal.Signals}.get(number, "")
    result = f"The workload exited with code {exit_.code}{name}. See log.txt for its last output."
    if number == signal.SIGBUS:
        result += " Shared memory (/dev/shm) may be full: use threads instead of processes, or fewer of them."
    return Status.FAILED, result


def _incomplete(log: EventLog, variants: Collection[str]) -> tuple[Status, str] | None:
    """Return what is missing in the events of a process that ended well; None if nothing is."""
    if log.problem or not log.ended:
        problem = "The script's process ended before all was measured, as after os._exit."
        problem = f"The events are not valid: {_sentence(log.problem)}" if log.problem else problem
        return Status.BAD_EVENTS, f"{problem} See log.txt and out/events.jsonl."
    measured = {window.variant for window in log.windows}
    if any(name.startswith(STAGE_PREFIX) for name in (*measured, *(metric.name for metric in log.metrics))):
        measured.add(STAGES)
    if any(name.startswith(FIX_PREFIX) for name in (*measured, *log.left_out)):
        measured.add(FIXES)
    if missing := [name for name in variants if name not in measured | log.needless | log.left_out.keys()]:
        problem = f"The workload did not measure {', '.join(missing)}. See out/events.jsonl."
        return Status.BAD_EVENTS, problem
    if not measured.intersection(variants):
        reasons = "; ".join(f"{name}: {log.left_out.get(name, 'not informative here')}" for name in variants)
        return Status.BAD_EVENTS, f"No variant was measured ({reasons}). Add others with --variants."
    return None


def _error(error: Mapping[str, Any]) -> str:
    """Return an error as a sentence; a ScriptError is one already."""
    kind, message = str(error["type"]), str(error["message"])
    if kind == "ScriptError":
        return _sentence(message)
    return _sentence(f"The workload raised {kind}: {reason_of(message)}")


def _is_out_of_memory(kind: str, message: str) -> bool:
    """Return whether an error of TensorFlow, NumPy, XLA or CUDA means out of memory."""
    if kind.endswith(("ResourceExhaustedError", "MemoryError")):
        return True
    text = message.casefold()
    return "resource_exhausted" in text or "out of memory" in text or "cudaerrormemoryallocation" in text


def _sentence(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "").strip()
    short = shortened(line, MAX_MESSAGE)
    return short if short.endswith((".", "!", "?")) else f"{short}."
