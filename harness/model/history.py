"""What a history says: the speeds of many runs through time, and where they changed."""

from __future__ import annotations

from dataclasses import dataclass

from harness.model.analysis import Estimate
from harness.model.comparison import Extract


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run in a trend: `run` is its position in History.runs, `image` what it ran in, in brief."""

    run: int
    created: str
    speed: Estimate
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """Where a trend changed for good.

    Attributes:
        at: position, in Trend.points, of the first run after it.
        ratio: the level after over the level before, with its 95 % interval; the unit is the run.
        p: how often chance alone makes a change as great anywhere in the stretch.
        along: what else differs between the runs on its two sides, in words.
    """

    at: int
    ratio: Estimate
    p: float
    along: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One workload, device and variant on one kind of machine through time, oldest first.

    Attributes:
        setting: what else is the same in all its runs: profile and data.
        noise: spread of runs within a level, as a share; None where it cannot be told.
    """

    machine: str
    workload: str
    device: str
    variant: str
    setting: str
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]
    noise: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What lay among the runs and is left out, and why: not readable, not ended, or a sweep."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Runs through time.

    Attributes:
        runs: oldest first.
        trends: by machine, workload, device, variant; those of a single run among them.
    """

    runs: tuple[Extract, ...]
    trends: tuple[Trend, ...]
    skipped: tuple[Skipped, ...]
    headline: str
