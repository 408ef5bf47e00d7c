"""How a sampler's process is driven: one word a line on standard input, one JSON object a line back.

The words come in the order load, then on, begin, end, off as often as wanted. Standard library only: this
runs in the environment of whatever sampler is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

Seen = Mapping[str, float | None]


class Peer(Protocol):
    """One sampler. What it raises goes back to who asked; an ImportError means that it is not installed."""

    def load(self) -> None:
        """Import what is needed."""
        ...

    def on(self) -> None:
        """Start sampling."""
        ...

    def begin(self) -> None:
        """Take note that the stretch begins that `off` reports on."""
        ...

    def end(self) -> None:
        """Take note that it ends."""
        ...

    def off(self) -> Seen:
        """Stop, and return `samples`, `util_pct` (mean) and `energy_j` of the stretch; None: not seen."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What to watch: a GPU by NVML's index and UUID (-1 and "" for none), a container's first process."""

    gpu: int
    uuid: str
    pid: int | None
    folder: str
    rate_hz: float


def serve(make: Callable[[Watch], Peer]) -> None:
    """Do what standard input says until it closes."""
    # Libraries may print; what they print must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    peer = make(_watch())
    actions: Mapping[str, Callable[[], Seen | None]] = {
        "load": peer.load,
        "on": peer.on,
        "begin": peer.begin,
        "end": peer.end,
        "off": peer.off,
    }
    for line in sys.stdin:
        answer: Mapping[str, object]
        try:
            answer = actions[line.strip()]() or {}
        except ImportError as error:
            answer = {"missing": error.name or str(error)}
        except Exception as error:  # whatever a peer raises is a result, not this benchmark's end
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _watch() -> Watch:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=-1)
    parser.add_argument("--uuid", default="")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--folder", default="")
    parser.add_argument("--rate", type=float, default=10.0)
    given = parser.parse_args()
    return Watch(gpu=given.gpu, uuid=given.uuid, pid=given.pid, folder=given.folder, rate_hz=given.rate)


@dataclass(frozen=True, slots=True)
class Point:
    """One reading: CLOCK_MONOTONIC in nanoseconds, percent, watts."""

    t_ns: int
    util_pct: float
    power_w: float


def summed(points: Sequence[Point], start_ns: int, end_ns: int) -> Seen:
    """Return samples, mean utilisation and joules by the trapezoidal rule, of readings around a stretch.

    Power is held constant beyond the first and the last reading.
    """
    inside = [point for point in points if start_ns <= point.t_ns <= end_ns]
    if not inside:
        return {"samples": 0, "util_pct": None, "energy_j": None}
    knots = [
        (start_ns, inside[0].power_w),
        *((p.t_ns, p.power_w) for p in inside),
        (end_ns, inside[-1].power_w),
    ]
    joules = sum(
        (after - before) / 1e9 * (one + other) / 2 for (before, one), (after, other) in pairwise(knots)
    )
    util = sum(point.util_pct for point in inside) / len(inside)
    return {"samples": len(inside), "util_pct": util, "energy_j": joules}


class Loop:
    """Call `read` at a fixed rate in a thread, as a user of a library without a sampler of its own would."""

    def __init__(self, read: Callable[[], Point], rate_hz: float) -> None:
        self.points: list[Point] = []
        self.error: Exception | None = None
        self._read = read
        self._period_s = 1 / rate_hz
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End.

        Raises:
            Exception: what a read had raised.
        """
        self._stop.set()
        self._thread.join(5)
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                self.points.append(self._read())
                due += self._period_s
        except Exception as error:  # handed to who stops the loop
            self.error = error
