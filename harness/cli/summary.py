"""A run's results on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.model.analysis import Analysis, Bound, Cost, Estimate, Summary, Sweep
from harness.rounding import estimate_decimals, fixed, three_digits
from workloads.protocol import OPTIMIZATION_PREFIX, VARIANTS

SWEEP_ROWS = 24
# What stands before a training time that is projected.
_PROJECTED = {Bound.NONE: "~", Bound.UPPER: "≤", Bound.LOWER: "≥"}
# Columns of the summary beside the variant's name, and the widest that usually stands in them.
_WIDTHS = {"samples/s": 9, "interval": 18, "ms/step": 7, "training": 12, "accuracy": 8, "n": 2}


def show_summary(console: Console, analysis: Analysis) -> None:
    """Print tables of speeds, the headline, notes, and last a line on what holds each workload back."""
    if analysis.summaries:
        console.print(_speeds(analysis.summaries))
    for sweep in analysis.sweeps:
        console.print(_sweep(sweep))
    if any(cost.per_hour is not None for cost in analysis.costs):
        console.print(_costs(analysis))
    console.print(Text(analysis.headline))
    notes: dict[str, list[str]] = {}
    for caveat in analysis.quality:
        if caveat.severity == "warning":
            notes.setdefault(f"{caveat.fact} {caveat.remedy}", []).append(caveat.subject)
    for note, subjects in notes.items():
        console.print(Text.assemble((f"Note on {', '.join(subjects)}: ", "yellow"), note))
    if not analysis.sweeps:
        _outcomes(console, analysis)


def _outcomes(console: Console, analysis: Analysis) -> None:
    """Print a line for each workload and device: its speed, and what holds it back."""
    from harness.analysis.outcomes import outcomes  # noqa: PLC0415 - kept off the way to the first training step

    for line in outcomes(analysis):
        console.print(Text(line), soft_wrap=True)


def _speeds(summaries: Sequence[Summary]) -> Group:
    """Return a table for each workload and device; columns line up, and fit into a terminal of 80."""
    # Variants that only serve the verdict speak through it.
    summaries = [
        summary
        for summary in summaries
        if summary.variant in VARIANTS or summary.variant.startswith(OPTIMIZATION_PREFIX)
    ] or summaries
    variants = max(len(summary.variant) for summary in summaries)
    parts: list[RenderableType] = [Text("Steady-state speed: median and 95 % interval over n trials")]
    groups = groupby(summaries, key=lambda summary: (summary.workload, summary.device))
    for (workload, device), group in groups:
        table = Table(
            title=Text(f"\n{workload} on {device}", style="bold"),
            title_justify="left",
            box=None,
            pad_edge=False,
        )
        table.add_column("variant", min_width=variants, no_wrap=True)
        for name, width in _WIDTHS.items():
            table.add_column(name, justify="right", min_width=width, no_wrap=True)
        for summary in group:
            table.add_row(*_speed(summary))
        parts.append(table)
    return Group(*parts, "")


def _speed(summary: Summary) -> tuple[Text | str, ...]:
    training = "-"
    if summary.training_s is not None:
        mark = _PROJECTED[summary.training_bound] if summary.training_projected else ""
        training = f"{mark}{duration(summary.training_s.median)}"
    return (
        Text(summary.variant),
        fixed(summary.throughput.median, estimate_decimals(summary.throughput)),
        interval(summary.throughput),
        three_digits(summary.step_time.median * 1e3),
        training,
        "-" if summary.accuracy is None else f"{100 * summary.accuracy:.1f} %",
        str(summary.throughput.n),
    )


def _sweep(sweep: Sweep) -> Group:
    """Return a table of a sweep's points, the fastest first; long ones are left to the report."""
    table = Table(box=None, pad_edge=False)
    for axis in sweep.axes:
        table.add_column(axis.name, justify="right", no_wrap=True)
    for name in ("samples/s", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    ordered = sorted(sweep.points, key=lambda point: -point.throughput.median if point.throughput else 1.0)
    for point in ordered[:SWEEP_ROWS]:
        status = point.status.value if point.status else "not run yet"
        text = "fastest" if point == sweep.best else "may be as fast" if point.tied else ""
        table.add_row(
            *(str(value) for _, value in point.point),
            f"{point.throughput.median:,.0f}" if point.throughput else "-",
            interval(point.throughput) if point.throughput else "-",
            text if point.throughput else status,
        )
    more = len(ordered) - SWEEP_ROWS
    rest = (f"... and {more} more points, in the report",) if more > 0 else ()
    return Group(Text(f"{sweep.workload} on {sweep.device}, {sweep.variant}", style="bold"), table, *rest, "")


def _costs(analysis: Analysis) -> Group:
    """Return a table of what each variant costs at the run's prices."""
    prices = analysis.run.manifest.prices
    table = Table(box=None, pad_edge=False)
    table.add_column("workload, device, variant", no_wrap=True)
    for name in ("an hour", "one training", "a million samples"):
        table.add_column(name, justify="right", no_wrap=True)
    for cost in analysis.costs:
        table.add_row(
            Text(f"{cost.workload}, {cost.device}, {cost.variant}"),
            "-" if cost.per_hour is None else f"{cost.per_hour:.4g}",
            "-" if cost.training is None else f"{_bounded(cost)}{cost.training.median:.3g}",
            "-" if cost.per_million_samples is None else f"{cost.per_million_samples.median:.3g}",
        )
    return Group(Text(f"Cost in {prices.currency if prices else ''}"), table, "")


def _bounded(cost: Cost) -> str:
    return _PROJECTED[cost.training_bound] if cost.training_bound else ""


def interval(estimate: Estimate) -> str:
    """Return an interval in words, "-" where a single trial gives none."""
    if estimate.n < 2:
        return "-"
    places = estimate_decimals(estimate)
    return f"{fixed(estimate.low, places)} to {fixed(estimate.high, places)}"


def duration(seconds: float) -> str:
    """Return a duration that people read at a glance, e.g. "17 min 55 s"."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
