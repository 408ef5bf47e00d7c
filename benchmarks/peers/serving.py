"""The process of a sampler: reads one command a line on standard input, answers with one line of JSON.

The commands are load, then start, begin, end, stop as often as wanted. Standard library only: this runs in
the environment of whatever sampler is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Observed = Mapping[str, float | None]


class Sampler(ABC):
    """One sampler. What it raises is sent back; an ImportError means that it is not installed.

    Attributes:
        given: `gpu` and `uuid` of the GPU to watch (None and "" for none), `pid` of a container's first
            process or None, `folder` to write to, `rate_hz`.
        start_ns, end_ns: the measured interval, CLOCK_MONOTONIC.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.start_ns = self.end_ns = 0

    @abstractmethod
    def load(self) -> None:
        """Import what is needed."""

    @abstractmethod
    def start(self) -> None:
        """Start sampling."""

    def begin(self) -> None:
        """Begin the measured interval."""
        self.start_ns = time.monotonic_ns()

    def end(self) -> None:
        """End the measured interval."""
        self.end_ns = time.monotonic_ns()

    @abstractmethod
    def stop(self) -> Observed:
        """Stop; return `samples`, `util_pct` (mean) and `energy_j` of the interval, None if not measured."""


def serve(kind: type[Sampler]) -> None:
    """Execute commands from standard input until it closes."""
    # Libraries may print; what they print must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--uuid", default="")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--folder", default="")
    parser.add_argument("--rate-hz", type=float, default=10.0)
    sampler = kind(parser.parse_args())
    for line in sys.stdin:
        answer: Mapping[str, object]
        try:
            answer = getattr(sampler, line.strip())() or {}
        except ImportError as error:
            answer = {"missing": error.name or str(error)}
        except Exception as error:  # whatever a sampler raises is a result, not this benchmark's end
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: CLOCK_MONOTONIC in nanoseconds, percent, watts."""

    t_ns: int
    util_pct: float
    power_w: float


def summarise(samples: Sequence[Sample], start_ns: int, end_ns: int) -> Observed:
    """Return the count, mean utilisation and joules (trapezoidal rule) of the samples in an interval.

    Power is held constant beyond the first and the last reading.
    """
    inside = [one for one in samples if start_ns <= one.t_ns <= end_ns]
    if not inside:
        return {"samples": 0, "util_pct": None, "energy_j": None}
    knots = [
        (start_ns, inside[0].power_w),
        *((one.t_ns, one.power_w) for one in inside),
        (end_ns, inside[-1].power_w),
    ]
    joules = sum(
        (after - before) / 1e9 * (one + other) / 2 for (before, one), (after, other) in pairwise(knots)
    )
    util = sum(one.util_pct for one in inside) / len(inside)
    return {"samples": len(inside), "util_pct": util, "energy_j": joules}


class Poller:
    """Call `read` at a fixed rate in a thread, as a user of a library without a sampler of its own would."""

    def __init__(self, read: Callable[[], Sample], rate_hz: float) -> None:
        self.samples: list[Sample] = []
        self.error: Exception | None = None
        self._read = read
        self._period_s = 1 / rate_hz
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop polling.

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
                self.samples.append(self._read())
                due += self._period_s
        except Exception as error:  # raised again by stop
            self.error = error
