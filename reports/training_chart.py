"""Bars of the time that training takes, beside published times."""

from __future__ import annotations

from dataclasses import replace

from harness.model.analysis import Analysis, Estimate, Summary
from harness.model.variants import variant_name
from reports import numbers
from reports.bars import Bar, bar_panels, colour, estimate_bar, row_label
from reports.charts import Figure, Table, chart
from reports.names import device_name
from reports.speed_chart import DIAMOND, SPEED_VARIANTS, device_legend, published_bar
from reports.titles import titles_of


def training_figure(analysis: Analysis) -> Figure | None:
    """Draw the time to train the published epochs beside published times; None without published times."""
    titles = titles_of(analysis)
    groups: list[tuple[str, list[Bar]]] = []
    rows: list[tuple[str, ...]] = []
    used: list[Summary] = []
    for workload, title in titles.items():
        others = [each for each in analysis.published if each.workload == workload and each.unit == "s"]
        own = [
            (summary, summary.training_s)
            for summary in analysis.summaries
            if summary.workload == workload
            and summary.variant in SPEED_VARIANTS
            and summary.training_s is not None
        ]
        if not others or not own:
            continue
        groups.append((title, [_bar(*each) for each in own] + [published_bar(each) for each in others]))
        rows += [_row(title, *each) for each in own]
        rows += [
            (title, each.system, "published", numbers.duration(each.value), "published", each.source)
            for each in others
        ]
        used += [summary for summary, _ in own]
    if not groups:
        return None
    panels, room_px = bar_panels(groups, unit="time")
    return Figure(
        id="figure-training",
        title="Time to train the published epochs",
        description="Bars of training time, measured or projected, and diamonds for published times.",
        spec=chart(panels, spacing=18),
        table=Table(
            header=("Workload", "Device", "Variant", "Time", "How", "Trials or source"), rows=tuple(rows)
        ),
        reserve_px=room_px + 4,
        rank=10,
        legend=(*device_legend(used), DIAMOND),
        trial_ids=tuple(dict.fromkeys(trial for summary in used for trial in summary.trial_ids)),
    )


def _how(summary: Summary) -> str:
    if not summary.training_projected:
        return "measured"
    return summary.training_bound.value or "projected"


def _bar(summary: Summary, time: Estimate) -> Bar:
    fill = colour(summary.device, summary.variant)
    bar = estimate_bar(row_label(summary), time, fill=fill, trial_ids=summary.trial_ids)
    spread = numbers.half_width(time) or "one value"
    return replace(bar, text=numbers.duration(time.median), interval=f"{_how(summary)}, {spread}")


def _row(title: str, summary: Summary, time: Estimate) -> tuple[str, ...]:
    return (
        title,
        device_name(summary.device),
        variant_name(summary.variant),
        numbers.duration(time.median),
        _how(summary),
        ", ".join(summary.trial_ids),
    )
