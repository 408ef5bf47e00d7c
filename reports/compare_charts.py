"""Figures of a comparison: who is fastest, and every workload side by side."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from harness.model.analysis import Estimate
from harness.model.comparison import Speed, Versus
from reports import numbers
from reports.bars import Bar, bar_panels, estimate_bar
from reports.charts import Figure, Key, Table, chart
from reports.compare_page import cells
from reports.together_charts import together_figures

_BARS = 60  # runs with a bar each
_KINDS = 8  # colours that there are


def figures_of(versus: Versus, titles: Mapping[str, str], scored_over: str) -> Mapping[str, Figure]:
    """Build every figure that there is something for, by id."""
    built = [
        *together_figures(versus.scaling, titles),
        _ranking(versus, scored_over),
        _speeds(versus, titles),
    ]
    return {figure.id: figure for figure in built if figure is not None}


def kind_colours(versus: Versus) -> dict[str, str]:
    """Give each kind of machine a colour; those beyond the colours that there are share one."""
    kinds = dict.fromkeys(run.machine for run in versus.runs)
    return {kind: f"var(--gpu-{min(number, _KINDS - 1)})" for number, kind in enumerate(kinds)}


def _ranking(versus: Versus, over: str) -> Figure | None:
    colours = kind_colours(versus)
    bars = [
        Bar(
            label=versus.runs[one.run].label,
            value=one.score.median,
            text=f"{numbers.number(one.score.median)}×",
            source=versus.runs[one.run].machine,
            interval=numbers.interval(one.score, 3),
            low=one.score.low if numbers.has_interval(one.score) else None,
            high=one.score.high if numbers.has_interval(one.score) else None,
            colour=colours[versus.runs[one.run].machine],
        )
        for one in versus.standings
    ]
    if len(bars) < 2:
        return None
    shown = bars if len(bars) <= _BARS else _kind_bars(versus, colours)
    panels, room_px = bar_panels([("", shown)], unit=f"times {over}")
    used = dict.fromkeys(bar.source for bar in shown)
    return Figure(
        id="figure-ranking",
        title=f"Best speed of every {'run' if shown is bars else 'kind of machine'}, over that of {over}",
        description="Bars, the fastest first: the geometric mean over workloads of each run's fastest device "
        "and variant, with 95 % intervals as whiskers; the median of a kind's runs where there are too many for "
        "a bar each. The table below has the numbers of every run.",
        spec=chart(panels, spacing=18),
        table=Table(
            header=("Run", "Times", "95 % interval", "Machine"),
            rows=tuple((bar.label, bar.text, bar.interval, bar.source) for bar in bars),
        ),
        reserve_px=room_px + 4,
        legend=tuple(Key(colour=colours[kind], shape="bar", name=kind) for kind in used),
    )


def _kind_bars(versus: Versus, colours: Mapping[str, str]) -> list[Bar]:
    return [
        Bar(
            label=f"{len(kind.runs)} × {kind.machine}",
            value=kind.score.median,
            text=f"{numbers.estimate(kind.score, 3)}×",
            source=kind.machine,
            interval=numbers.interval(kind.score, 3),
            low=kind.score.low,
            high=kind.score.high,
            colour=colours[kind.machine],
        )
        for kind in versus.kinds
    ]


def _speeds(versus: Versus, titles: Mapping[str, str]) -> Figure | None:
    """Draw each workload, device and variant with a bar a run."""
    colours = kind_colours(versus)
    by_run = {(one.run, one.workload, one.device, one.variant): one for one in versus.ratios}
    groups: list[tuple[str, list[Bar]]] = []
    rows: list[tuple[str, ...]] = []
    for cell in cells(versus, tested=True):
        bars = []
        for number, run in enumerate(versus.runs):
            for speed in run.speeds:
                if (speed.workload, speed.device, speed.variant) == (
                    cell.workload,
                    cell.device,
                    cell.variant,
                ):
                    ratio = by_run.get((number, cell.workload, cell.device, cell.variant))
                    over = numbers.ratio_estimate(ratio.ratio) if ratio else "reference"
                    value = speed.summary or _without_interval(speed)
                    bars.append(
                        estimate_bar(run.label, value, fill=colours[run.machine], trial_ids=speed.trial_ids)
                    )
                    interval = numbers.interval(value)
                    rows.append((cell.name, run.label, bars[-1].text, interval, over, str(value.n)))
        groups.append((f"{titles[cell.workload]}: {cell.name.partition(', ')[2]}", bars))
    if not groups:
        return None
    panels, room_px = bar_panels(groups, unit="samples/s")
    return Figure(
        id="figure-speeds",
        title="Speed of every workload, samples per second",
        description="Bars of throughput with 95 % intervals, a bar a run, for each workload, device and variant; "
        "each has a scale of its own. The table below has the same numbers with ratios and intervals.",
        spec=chart(panels, spacing=18),
        table=Table(
            header=("What", "Run", "samples/s", "95 % interval", "Over the reference", "Trials"),
            rows=tuple(rows),
        ),
        reserve_px=room_px + 4,
        rank=1,
    )


def _without_interval(speed: Speed) -> Estimate:
    middle = median(speed.throughput)
    return Estimate(median=middle, low=middle, high=middle, n=1, unit="samples/s")
