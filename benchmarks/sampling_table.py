"""Turns of samplers as a Markdown table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Protocol

from harness.analysis.stats import estimate

MISSING = "-"


class Row(Protocol):
    """What a turn has to say of itself."""

    @property
    def sampler(self) -> str: ...  # noqa: D102
    @property
    def round(self) -> int: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def cpu_s(self) -> float: ...  # noqa: D102
    @property
    def memory_bytes(self) -> int: ...  # noqa: D102
    @property
    def counter_j(self) -> float | None: ...  # noqa: D102
    @property
    def seen(self) -> Mapping[str, float | None]: ...  # noqa: D102
    @property
    def speed(self) -> float: ...  # noqa: D102


def table(title: str, turns: Sequence[Row], left_out: Mapping[str, str], none: str) -> Sequence[str]:
    """Lay turns out, a line for each sampler; `none` is the one that the others are compared with."""
    alone = {turn.round: turn.speed for turn in turns if turn.sampler == none}
    on_gpu = any(turn.counter_j is not None for turn in turns)
    heads = ["sampler", "slowdown, % (95 % interval)", "own time, % of a core", "own time, us a sample"]
    heads += ["memory, MiB"]
    if on_gpu:
        heads += ["utilisation seen, %", "energy seen, J", "GPU's counter, J", "off by, %"]
    lines = [title, "", _line(heads), _line(["---"] * len(heads))]
    for name in dict.fromkeys(turn.sampler for turn in turns):
        mine = [turn for turn in turns if turn.sampler == name]
        cells = [name, *(_cost(mine, alone) if name != none else [MISSING] * 4)]
        lines.append(_line([*cells, *(_sight(mine) if on_gpu else [])]))
    lines += [
        "",
        "Medians over the rounds, memory the greatest (PSS), all of the samplers' own processes only:",
    ]
    lines.append("what a daemon does for them, such as the engine for `docker stats`, comes on top.")
    lines += [f"Left out: {name}, {why.rstrip('.')}." for name, why in left_out.items()]
    return lines


def _cost(turns: Sequence[Row], alone: Mapping[int, float]) -> list[str]:
    ratios = [100 * (alone[turn.round] / turn.speed - 1) for turn in turns if turn.round in alone]
    slow = estimate(ratios, "%")
    share = median(100 * turn.cpu_s / turn.seconds for turn in turns)
    each = [turn.cpu_s * 1e6 / count for turn in turns if (count := turn.seen.get("samples"))]
    return [
        MISSING if slow is None else f"{slow.median:+.2f} ({slow.low:+.2f} to {slow.high:+.2f})",
        f"{share:.2f}",
        f"{median(each):,.0f}" if each else MISSING,
        f"{max(turn.memory_bytes for turn in turns) / 2**20:.0f}",
    ]


def _sight(turns: Sequence[Row]) -> list[str]:
    util = _seen(turns, lambda turn: turn.seen.get("util_pct"))
    sm = _seen(turns, lambda turn: turn.seen.get("sm_util_pct"))
    seen = _seen(turns, lambda turn: turn.seen.get("energy_j"))
    counter = _seen(turns, lambda turn: turn.counter_j)
    off = [
        100 * (joules / turn.counter_j - 1)
        for turn in turns
        if (joules := turn.seen.get("energy_j")) is not None and turn.counter_j
    ]
    words = MISSING if util is None else f"{util:.1f}"
    return [
        words if sm is None else f"{words} (SMs {sm:.1f})",
        MISSING if seen is None else f"{seen:,.1f}",
        MISSING if counter is None else f"{counter:,.1f}",
        f"{median(off):+.2f} ({min(off):+.2f} to {max(off):+.2f})" if off else MISSING,
    ]


def _seen(turns: Sequence[Row], value: Callable[[Row], float | None]) -> float | None:
    values = [each for turn in turns if (each := value(turn)) is not None]
    return median(values) if values else None


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
