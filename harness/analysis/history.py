"""Many runs through time: one trend a machine, workload, device and variant, and where each changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.analysis.changes import LEAST, Split, splits
from harness.analysis.compare import CPU
from harness.analysis.facts import DATA, IMAGE, PROFILE, SECTIONS
from harness.analysis.independent import LEVEL, gap, sample
from harness.analysis.stats import estimate
from harness.analysis.versus import SWEPT, TESTED
from harness.analysis.words import interval, listed, percent, significant
from harness.model.comparison import Extract, Speed
from harness.model.history import ChangePoint, History, Point, Skipped, Trend
from harness.model.run import target_for
from harness.rounding import counted

_Key = tuple[str, str, str, str, str]
_ALONG = 4
_NAMED = 3


def history(runs: Sequence[Extract], skipped: Sequence[Skipped] = ()) -> History:
    """Return the trends of runs in any order; left out, with why, are those that have not ended, and sweeps.

    Runs of one trend share the kind of machine, the profile and the data, so that what is left to differ is
    what a trend is to show: images, drivers, kernels, workloads and tfbench itself.
    """
    left_out = {number: why for number, run in enumerate(runs) if (why := _why_not(run))}
    whole = [run for number, run in enumerate(runs) if number not in left_out]
    ordered = tuple(sorted(whole, key=lambda run: (run.created, run.run_id)))
    groups: dict[_Key, list[tuple[int, Speed]]] = {}
    for position, run in enumerate(ordered):
        for speed in run.speeds:
            if speed.variant in TESTED:
                key = (run.machine, speed.workload, speed.device, speed.variant, _setting(run, speed))
                groups.setdefault(key, []).append((position, speed))
    tested = sum(len(group) >= 2 * LEAST for group in groups.values())
    level = LEVEL / max(tested, 1)
    trends = tuple(_trend(ordered, key, groups[key], level) for key in sorted(groups))
    return History(
        runs=ordered,
        trends=trends,
        skipped=(
            *skipped,
            *(Skipped(path=runs[at].source or runs[at].label, why=why) for at, why in left_out.items()),
        ),
        headline=" ".join(_headline(ordered, trends)),
    )


def _why_not(run: Extract) -> str:
    """Say why a run is in no trend; "" where it may be."""
    if run.swept and not run.speeds:
        return f"{SWEPT}."
    if run.unfinished:
        ended = f"{run.ok} of {counted(run.planned, 'planned trial')} ended well"
        return f"it is still being measured or was cut short, {ended}; `tfbench bench --resume` goes on."
    return ""


def _setting(run: Extract, speed: Speed) -> str:
    profile = run.facts.get(PROFILE, {})
    params = [f"{name} {value}" for name, value in profile.items() if name.startswith("--param")]
    data = run.facts.get(DATA, {}).get(speed.workload, "")
    return ", ".join(filter(None, (profile.get("profile", ""), data, *params)))


def _trend(runs: Sequence[Extract], key: _Key, group: Sequence[tuple[int, Speed]], level: float) -> Trend:
    machine, workload, device, variant, setting = key
    points = []
    logs = []
    for position, speed in group:
        made, value = sample(speed.throughput), estimate(speed.throughput, "samples/s")
        if made is not None and value is not None:
            target = target_for(runs[position].family(workload), gpu=device != CPU)
            image = runs[position].facts.get(IMAGE, {}).get(target, "")
            created = runs[position].created
            points.append(Point(run=position, created=created, speed=value, image=image[:12]))
            logs.append(made.mean)
    found = tuple(_changes(runs, points, logs, level))
    return Trend(
        machine=machine,
        workload=workload,
        device=device,
        variant=variant,
        setting=setting,
        points=tuple(points),
        changes=found,
        noise=_noise(logs, [one.at for one in found]),
    )


def _changes(
    runs: Sequence[Extract], points: Sequence[Point], logs: Sequence[float], level: float
) -> Iterator[ChangePoint]:
    """Yield the splits whose interval, over the runs of the two levels, excludes 1."""
    found = splits(logs, level)
    ends = [0, *(split.at for split in found), len(logs)]
    for number, split in enumerate(found, 1):
        before = sample([math.exp(value) for value in logs[ends[number - 1] : split.at]])
        after = sample([math.exp(value) for value in logs[split.at : ends[number + 1]]])
        assert before is not None and after is not None  # a split leaves runs on both sides
        ratio = gap(after, before).estimate()
        if not ratio.low <= 1 <= ratio.high:
            yield ChangePoint(at=split.at, ratio=ratio, p=split.p, along=_along(runs, points, split))


def _along(runs: Sequence[Extract], points: Sequence[Point], split: Split) -> tuple[str, ...]:
    """Say what the last run before a change and the first one after it do not share."""
    before, after = runs[points[split.at - 1].run], runs[points[split.at].run]
    found = []
    for section in SECTIONS:
        old, new = before.facts.get(section, {}), after.facts.get(section, {})
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                found.append(f"{section}, {name}: {_brief(old.get(name))} → {_brief(new.get(name))}")
    more = len(found) - _ALONG
    return (*found[:_ALONG], *((f"{more} more",) if more > 0 else ()))


def _brief(value: str | None) -> str:
    if not value:
        return "not known"
    return value if len(value) <= 40 else f"{value[:20]}…"


def _noise(logs: Sequence[float], changes: Sequence[int]) -> float | None:
    """Return the standard deviation of runs around their own level, as a share."""
    ends = [0, *changes, len(logs)]
    squares = 0.0
    degrees = 0
    for start, end in pairwise(ends):
        level = logs[start:end]
        middle = sum(level) / len(level) if level else 0.0
        squares += sum((value - middle) ** 2 for value in level)
        degrees += max(len(level) - 1, 0)
    return math.sqrt(squares / degrees) if degrees > 1 else None


def _headline(runs: Sequence[Extract], trends: Sequence[Trend]) -> Iterator[str]:
    if not trends:
        yield "No run here has measured anything."
        return
    machines = len({one.machine for one in trends})
    yield f"{counted(len(runs), 'run')} on {counted(machines, 'kind of machine', 'kinds of machine')}."
    found = [(trend, change) for trend in trends for change in trend.changes]
    if found:
        found.sort(key=lambda pair: trend_time(*pair), reverse=True)
        parts = [_said(trend, change) for trend, change in found[:_NAMED]]
        more = f", and {counted(len(found) - _NAMED, 'more change')}" if len(found) > _NAMED else ""
        yield f"Speed changed for good, the latest first: {listed(parts)}{more}."
    else:
        long = sum(len(one.points) >= 2 * LEAST for one in trends)
        yield (
            f"No change of speed could be shown in {counted(long, 'trend')} of {2 * LEAST} runs and more."
            if long
            else f"No trend has the {2 * LEAST} runs yet that it takes to tell a change from chance."
        )


def trend_time(trend: Trend, change: ChangePoint) -> str:
    """Return when a change was first seen."""
    return trend.points[change.at].created


def _said(trend: Trend, change: ChangePoint) -> str:
    ratio = change.ratio
    moved = f"{'+' if ratio.median > 1 else '−'}{percent(abs(ratio.median - 1))}"
    if not 0.5 < ratio.median < 2:
        moved = f"{significant(ratio.median)} times"
    day = trend_time(trend, change)[:10]
    return f"{trend.workload} on {trend.device}, {trend.variant}, {moved}{interval(ratio)} since {day}"
