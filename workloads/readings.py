"""What readings are worth: the one definition of a step's time, and of a gain.

A reading is one variant, measured once, in consecutive windows of one process. Standard library only: the driver
decides by these functions what to measure next, and the analysis reports the same numbers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from workloads.variants import BASELINE, changes_baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Steps measured between two synchronisation points.

    Attributes:
        reading: which reading of the variant in its trial, from 0.
        wait_ns: time spent waiting for input; -1 if waiting is not observable.
    """

    variant: str
    index: int
    start_ns: int
    end_ns: int
    steps: int
    samples: int
    wait_ns: int
    reading: int = 0

    @property
    def length_ns(self) -> int:
        """Its length in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of a reading, with the share of its steps in the ends of epochs.

    Attributes:
        step_s, sample_s: seconds per step and per sample.
        batch: samples per step, as a mean.
        at_ns: the middle of its windows.
        wait_share: share of the time spent waiting for input, over windows in which that is observable; None without.
    """

    step_s: float
    sample_s: float
    batch: float
    at_ns: float
    wait_share: float | None


def overlaps(start_ns: int, end_ns: int, stops: Iterable[tuple[int, int]]) -> bool:
    """Return whether processes stood still in a part of a measurement; see the event `stopped`."""
    return any(began_ns < end_ns and start_ns < ended_ns for began_ns, ended_ns in stops)


def by_reading(windows: Iterable[Window], variant: str) -> list[list[Window]]:
    """Return the windows of each reading of a variant in a trial."""
    readings: dict[int, list[Window]] = {}
    for window in windows:
        if window.variant == variant:
            readings.setdefault(window.reading, []).append(window)
    return list(readings.values())


def timing(windows: Sequence[Window], between_s: float = 0.0) -> Timing | None:
    """Return the times of a reading; None if its windows have no steps, samples or length.

    Windows are without the ends of epochs, since one falls into some windows and not into others.

    Args:
        between_s: seconds per step that ends of epochs take.
    """
    steps, samples = (sum(getattr(each, name) for each in windows) for name in ("steps", "samples"))
    length_s = seconds(windows, between_s)
    if steps <= 0 or samples <= 0 or length_s <= 0:
        return None
    observed = [each for each in windows if each.wait_ns >= 0]
    waiting_s = seconds(observed, between_s)
    return Timing(
        step_s=length_s / steps,
        sample_s=length_s / samples,
        batch=samples / steps,
        at_ns=(windows[0].start_ns + windows[-1].end_ns) / 2,
        wait_share=min(1.0, sum(each.wait_ns for each in observed) / 1e9 / waiting_s) if waiting_s else None,
    )


def seconds(windows: Iterable[Window], between_s: float = 0.0) -> float:
    """Return the time of windows with the ends of epochs that belong to their steps, in seconds."""
    return sum(each.length_ns / 1e9 + each.steps * between_s for each in windows)


def between_epochs_s(values: Mapping[str, Sequence[float]], variant: str) -> float:
    """Return the seconds per step that ends of epochs take.

    The mean, as some ends take much longer than most. Not every reading has one; changes of the baseline without any
    have the baseline's.

    Args:
        values: variant -> what its readings have reported.
    """
    found = values.get(variant) or (values.get(BASELINE) if changes_baseline(variant) else None)
    return fmean(found) if found else 0.0


def gains(readings: Iterable[tuple[float, float]], references: Iterable[tuple[float, float]]) -> list[float]:
    """Return how many times as fast each reading is as the references around it in time.

    Between two references their times are interpolated on a log scale, so that a machine that gets slower steadily
    changes no gain; before the first and after the last, they are constant. Empty without references.

    Args:
        readings, references: (when, seconds per sample).

    >>> [round(each, 3) for each in gains([(1.0, 1.0)], [(0.0, 1.0), (2.0, 4.0)])]
    [2.0]
    """
    known = sorted(references)
    if not known:
        return []
    times = [when for when, _ in known]
    result = []
    for when, sample_s in readings:
        after = bisect.bisect(times, when)
        (t0, s0), (t1, s1) = known[max(0, after - 1)], known[min(after, len(known) - 1)]
        part = (when - t0) / (t1 - t0) if t1 > t0 else 0.0
        reference = math.exp((1 - part) * math.log(s0) + part * math.log(s1))
        result.append(reference / sample_s)
    return result


def mean_gain(values: Sequence[float]) -> float:
    """Return the geometric mean of gains; 0 without any."""
    return math.exp(fmean(map(math.log, values))) if values else 0.0
