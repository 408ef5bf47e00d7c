"""From a container's event file to the parts of a Trial. Tolerant: what was well-formed is kept."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Fact, Metric, Phase, RequestTimes, Scalar, StepTimes, VariantInfo, Window
from workloads.protocol import Change, ProtocolError, read_events

MAX_BYTES = 256 << 20

# What a hostile or broken line can raise: beyond ProtocolError (a ValueError) there are numbers of a
# thousand digits and brackets nested a hundred thousand deep.
_MALFORMED = (TypeError, ValueError, OverflowError, RecursionError)


@dataclass(slots=True, kw_only=True)
class EventLog:
    """What a container said.

    Attributes:
        left_out: planned variant that was not measured -> why.
        problem: why reading stopped early, "" when all of the file is in the protocol.
        start: the first event, or None when there was none.
        error: the last error event, or None.
        ended: whether the last event of a trial that went well is there.
    """

    facts: dict[str, Scalar] = field(default_factory=dict)
    variants: list[VariantInfo] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    steps: list[StepTimes] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    requests: list[RequestTimes] = field(default_factory=list)
    said: list[Fact] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    start: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    ended: bool = False
    problem: str = ""

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one checked event."""
        fields = {name: value for name, value in event.items() if name not in ("kind", "t_ns")}
        match event["kind"]:
            case "start":
                self.start = event
            case "facts":
                self.facts |= {str(k): v for k, v in fields["facts"].items() if isinstance(v, Scalar)}
            case "variant":
                changes = tuple(Change(**change) for change in fields.pop("changes"))
                made = VariantInfo(variant=fields["variant"], params=fields["params"], changes=changes)
                # One that XLA could not compile begins again without.
                self.variants = [*(one for one in self.variants if one.variant != made.variant), made]
            case "phase":
                _check_span(fields)
                self.phases.append(Phase(**fields))
            case "window":
                _check_span(fields)
                if min(fields["steps"], fields["samples"]) < 1 or fields["start_ns"] == fields["end_ns"]:
                    raise ProtocolError("a window without steps, samples or length")
                self.windows.append(Window(**fields))
            case "steps":
                step_ns, wait_ns = _durations(fields["step_ns"]), _durations(fields["wait_ns"])
                self.steps.append(
                    StepTimes(
                        variant=fields["variant"], window=fields["window"], step_ns=step_ns, wait_ns=wait_ns
                    )
                )
            case "requests":
                _check_span(fields)
                latency_ns = _durations(fields.pop("latency_ns"))
                self.requests.append(RequestTimes(**fields, latency_ns=latency_ns))
            case "metric" | "fact" | "warning" as kind:
                self._say(kind, fields)
            case "left-out":
                self.left_out[fields["variant"]] = fields["reason"]
            case "error":
                self.error = event
            case "end":
                self.ended = fields["ok"]

    def _say(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "metric":
            self.metrics.append(Metric(**fields))
        elif kind == "fact":
            self.said.append(Fact(**fields))
        else:
            self.warnings.append(fields["message"])


def _check_span(fields: Mapping[str, Any]) -> None:
    if not 0 <= fields["start_ns"] <= fields["end_ns"] < 1 << 63:
        raise ProtocolError("a time span that ends before it begins")


def _durations(values: Any) -> NDArray[np.int64]:
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1:
        raise ProtocolError("durations are not a plain list")
    return array


def read_log(path: Path) -> EventLog:
    """Read an event file as far as it is in the protocol; a missing file is an empty log with a problem."""
    log = EventLog()
    try:
        with _open(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                log.problem = f"the event file is larger than {MAX_BYTES >> 20} MiB"
                return log
            _take(log, read_events(io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")))
    except FileNotFoundError:
        log.problem = "the workload wrote no events"
    except OSError as error:
        log.problem = f"the event file cannot be read: {error.strerror}"
    if not log.problem and log.start is None:
        log.problem = "the workload wrote no events"
    return log


def _open(path: Path) -> io.BufferedReader:
    """Open a file that a container wrote: never a link out of its folder, a device or a pipe.

    Raises:
        OSError: it is not there, or not a plain file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, not a path


def _take(log: EventLog, events: Iterable[Mapping[str, Any]]) -> None:
    try:
        for event in events:
            log.add(event)
    except _MALFORMED as error:
        log.problem = str(error)


class EventTail:
    """Follow a growing event file: how many bytes it has, and the window events that are new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Mapping[str, Any]]:
        """Return the whole new events since the last call; what is not an event is passed over here."""
        try:
            with _open(self._path) as file:
                file.seek(self._offset)
                chunk = file.read(MAX_BYTES)
        except OSError:
            return []
        whole = chunk[: chunk.rfind(b"\n") + 1]
        self._offset += len(whole)
        events: list[Mapping[str, Any]] = []
        for line in whole.splitlines(keepends=True):
            try:
                events += read_events(iter([line.decode("utf-8")]))
            except _MALFORMED:
                continue
        return events
