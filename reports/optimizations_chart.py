"""Bars of the way from baseline to tuned."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.analysis import Analysis, Summary
from harness.model.variants import variant_name
from reports import numbers
from reports.bars import Bar, bar_panels, estimate_bar
from reports.charts import Figure, Table, chart
from reports.names import device_name, is_gpu
from reports.titles import titles_of
from workloads.protocol import BASELINE, OPTIMIZATION_PREFIX, TUNED


def optimizations_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed of each step between baseline and tuned; None where no workload has such steps."""
    return _figure(
        analysis,
        _groups(analysis, OPTIMIZATION_PREFIX, {BASELINE: 0, TUNED: 2}),
        id_="figure-optimizations",
        title="From baseline to tuned, samples per second",
        description="Bars of throughput for each step from the published code to the tuned one.",
        rank=20,
    )


def _groups(analysis: Analysis, prefix: str, beside: Mapping[str, int]) -> list[list[Summary]]:
    """Collect the variants with `prefix`, and those beside them below 0.5 come before, above after."""
    found: dict[tuple[str, str], list[Summary]] = {}
    for summary in analysis.summaries:
        if summary.variant in beside or summary.variant.startswith(prefix):
            found.setdefault((summary.workload, summary.device), []).append(summary)
    return [
        sorted(group, key=lambda summary: beside.get(summary.variant, 0.5))
        for group in found.values()
        if any(summary.variant.startswith(prefix) for summary in group)
    ]


def _figure(
    analysis: Analysis, groups: list[list[Summary]], *, id_: str, title: str, description: str, rank: int
) -> Figure | None:
    if not groups:
        return None
    titles = titles_of(analysis)
    panels, room_px = bar_panels(
        [
            (f"{titles[group[0].workload]}: {device_name(group[0].device)}", [_bar(each) for each in group])
            for group in groups
        ],
        unit=groups[0][0].throughput.unit,
    )
    shown = [summary for group in groups for summary in group]
    rows = tuple(
        (
            titles[summary.workload], device_name(summary.device), variant_name(summary.variant),
            numbers.estimate(summary.throughput), numbers.interval(summary.throughput),
            ", ".join(summary.trial_ids),
        )
        for summary in shown
    )  # fmt: skip
    return Figure(
        id=id_,
        title=title,
        description=description,
        spec=chart(panels, spacing=18),
        table=Table(header=("Workload", "Device", "Step", "samples/s", "95 % interval", "Trials"), rows=rows),
        reserve_px=room_px + 4,
        rank=rank,
        trial_ids=tuple(dict.fromkeys(trial for summary in shown for trial in summary.trial_ids)),
    )


def _bar(summary: Summary) -> Bar:
    fill = f"var(--{'gpu' if is_gpu(summary.device) else 'cpu'})"
    return estimate_bar(
        variant_name(summary.variant), summary.throughput, fill=fill, trial_ids=summary.trial_ids
    )
