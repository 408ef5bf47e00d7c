"""The process of a sampler: reads one command a line on standard input, answers with one line of JSON.

The commands are load, then start, begin, end, stop as often as wanted. Standard library only: this runs in
the environment of whatever sampler is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

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
