"""Read a container's event file. Well-formed events before an error are kept."""

from __future__ import annotations

import errno
import io
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.run import (
    MAX_SAMPLES_PER_S,
    Answer,
    Metric,
    Phase,
    RequestTimes,
    Scalar,
    StepTimes,
    VariantInfo,
    VariantScript,
)
from harness.run.json_values import from_plain
from harness.untrusted import open_regular, sanitized
from workloads.protocol import (
    LONGEST_MESSAGE,
    ProtocolError,
    read_events,
)
from workloads.readings import Window, overlaps
from workloads.variants import has_any, refused

MAX_BYTES = 256 << 20
# Characters in one text, or a whole script, values in one mapping or list, and characters in all events of a trial.
MAX_TEXT = LONGEST_MESSAGE
MAX_ENTRIES = 500
MAX_CHARACTERS = 8_000_000
# Further warnings of a trial are dropped.
MAX_WARNINGS = 100
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
    "answer": ("answers", Answer),
}

# Kinds of events that belong to a reading of their variant.
_OF_READINGS = ("window", "steps", "metric", "answer")

# Errors raised by malformed lines: ProtocolError (a ValueError), huge numbers (OverflowError), deep nesting
# (RecursionError).
_MALFORMED = (TypeError, ValueError, OverflowError, RecursionError)


@dataclass(slots=True, kw_only=True)
class EventLog:
    """Events reported by a container.

    Attributes:
        left_out: planned variant that could not be measured -> reason.
        judged: variant with remedies -> why they may not be offered; "" if they may.
        needless: planned variants that the driver skipped.
        problem: why reading stopped early, "" if the whole file is valid.
        characters: approximate total size of the events.
        readings: variant -> how many of its readings have begun.
        stops: from and to, in nanoseconds, when all processes were stopped from outside.
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
    answers: list[Answer] = field(default_factory=list)
    requests: list[RequestTimes] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    judged: dict[str, str] = field(default_factory=dict)
    needless: set[str] = field(default_factory=set)
    readings: dict[str, int] = field(default_factory=dict)
    stops: list[tuple[int, int]] = field(default_factory=list)
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
        if event["kind"] == "start" and self.started:
            raise ProtocolError("the events of two runs")
        plain = {name: value for name, value in event.items() if name not in _ARRAYS}
        _check_values(plain.values())
        self.characters += len(str(plain))
        if self.characters > MAX_CHARACTERS:
            raise ProtocolError(f"more than {MAX_CHARACTERS:,} characters of events")
        self._store({**event, **sanitized(plain, MAX_TEXT, verbatim=event["kind"] == "script")})

    def parts(self) -> dict[str, Any]:
        """Return the fields of a Trial that its container reports."""
        lists = (*(name for name, _ in _LISTS.values()), "warnings")
        return {name: tuple(getattr(self, name)) for name in lists} | {
            "facts": self.facts,
            "left_out": self.left_out,
            "judged": self.judged,
        }

    def _store(self, event: Mapping[str, Any]) -> None:
        kind = event["kind"]
        if kind in _LISTS:
            name, type_ = _LISTS[kind]
            reading = {"reading": max(0, self.readings.get(event["variant"], 0) - 1)}
            value = from_plain({**event, **(reading if kind in _OF_READINGS else {})}, type_, _durations)
            _check_times(value)
            self._check_order(value)
            if isinstance(value, VariantInfo):
                # A variant that XLA cannot compile is started again without XLA.
                self.variants = [variant for variant in self.variants if variant.variant != value.variant]
            getattr(self, name).append(value)
            return
        match kind:
            case "start":
                self.started = True
            case "reading":
                self.readings[event["variant"]] = self.readings.get(event["variant"], 0) + 1
            case "stopped":
                self.stops.append((event["start_ns"], event["end_ns"]))
            case "facts":
                self.facts |= {k: v for k, v in event["facts"].items() if isinstance(v, Scalar)}
            case "warning":
                if len(self.warnings) < MAX_WARNINGS:
                    self.warnings.append(event["message"])
            case "left-out" | "judged":
                reasons = self.left_out if kind == "left-out" else self.judged
                reasons[event["variant"]] = event["reason"]
            case "needless":
                self.needless.add(event["variant"])
            case "error":
                self.error = event
            case "end":
                self.ended = True

    def drop_stopped(self) -> None:
        """Drop what was measured while all processes were stopped, once all events are there."""
        if not self.stops:
            return
        self.windows = [each for each in self.windows if not overlaps(each.start_ns, each.end_ns, self.stops)]
        self.requests = [
            each for each in self.requests if not overlaps(each.start_ns, each.end_ns, self.stops)
        ]
        whole = {(each.variant, each.reading, each.index) for each in self.windows}
        self.steps = [each for each in self.steps if (each.variant, each.reading, each.window) in whole]

    def drop_refused(self) -> None:
        """Drop the readings with remedies that may not be offered, once all events are there."""
        dropped = refused(self.judged)
        self.left_out |= dropped
        for name, _ in _LISTS.values():
            setattr(self, name, [e for e in getattr(self, name) if not has_any([e.variant], dropped)])

    def _check_order(self, value: object) -> None:
        """Check that the windows of a reading come one after another: two processes that measure it at once do not."""
        if not isinstance(value, Window):
            return
        before = next((window for window in reversed(self.windows) if window.variant == value.variant), None)
        if before and before.reading == value.reading and before.index >= value.index:
            raise ProtocolError("two windows of one reading have the same number")


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
    log.drop_stopped()
    log.drop_refused()
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
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # else it would wait for ever
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
