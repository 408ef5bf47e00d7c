"""Bars of speed: CPU against GPUs against published numbers, baseline and tuned."""

from __future__ import annotations

from harness.model.analysis import Analysis, PublishedComparison, Summary
from harness.model.variants import variant_name
from reports import numbers
from reports.bars import Bar, bar_panels, colour, estimate_bar, row_label
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, is_gpu
from reports.titles import titles_of
from workloads.protocol import BASELINE, TUNED

_SHORT_NOTE = 24
SPEED_VARIANTS = (BASELINE, TUNED)
DIAMOND = Key(colour="var(--ink)", shape="diamond", name="published")


def speed_figure(analysis: Analysis) -> Figure | None:
    """Draw samples per second of each workload with 95 % intervals; None when nothing was measured."""
    titles = titles_of(analysis)
    groups: list[tuple[str, list[Bar]]] = []
    rows: list[tuple[str, ...]] = []
    diamonds = False
    measured = [summary for summary in analysis.summaries if summary.variant in SPEED_VARIANTS]
    for workload in dict.fromkeys(summary.workload for summary in measured):
        own = [summary for summary in measured if summary.workload == workload]
        unit = own[0].throughput.unit
        others = [each for each in analysis.published if each.workload == workload and each.unit == unit]
        diamonds = diamonds or bool(others)
        bars = [_measured_bar(summary) for summary in own] + [published_bar(each) for each in others]
        groups.append((titles[workload], bars))
        rows += [_row(titles[workload], summary) for summary in own]
        rows += [
            (
                titles[workload],
                each.system,
                "published",
                numbers.published_quantity(each.value, each.upto, each.unit),
                "–",
                each.source,
            )
            for each in others
        ]
    if not groups:
        return None
    panels, room_px = bar_panels(groups, unit=measured[0].throughput.unit)
    return Figure(
        id="figure-speed",
        title="Speed in steady state, samples per second",
        description="Bars of throughput for each workload, device and variant, with 95 % intervals as "
        "whiskers; each workload has a scale of its own. The table below has the same numbers.",
        spec=chart(panels, spacing=24),
        table=Table(
            header=("Workload", "Device", "Variant", "samples/s", "95 % interval", "Trials or source"),
            rows=tuple(rows),
        ),
        reserve_px=room_px + 4,
        legend=(*device_legend(measured), *((DIAMOND,) if diamonds else ())),
        trial_ids=tuple(dict.fromkeys(trial for summary in measured for trial in summary.trial_ids)),
    )


def published_bar(each: PublishedComparison) -> Bar:
    """Make a diamond of a published number."""
    # A short note tells numbers of one system apart: precision, compiler, batch.
    label = f"{each.system}, {each.note}" if 0 < len(each.note) <= _SHORT_NOTE else each.system
    return Bar(
        label=label,
        value=each.value,
        text=numbers.quantity(each.value, each.unit)
        if each.unit == "s"
        else numbers.published_quantity(each.value, each.upto, "").rstrip(numbers.THIN),
        interval=each.note or "none published",
        source=each.source,
        published=True,
    )


def device_legend(summaries: list[Summary]) -> tuple[Key, ...]:
    """List the colours that stand for the devices and variants among `summaries`."""
    names = {
        colour(
            summary.device, summary.variant
        ): f"{'GPU' if is_gpu(summary.device) else 'CPU'} {variant_name(summary.variant)}"
        for summary in summaries
    }
    return tuple(Key(colour=fill, shape="bar", name=name) for fill, name in names.items())


def _measured_bar(summary: Summary) -> Bar:
    return estimate_bar(
        row_label(summary), summary.throughput, fill=colour(summary.device, summary.variant),
        trial_ids=summary.trial_ids,
    )  # fmt: skip


def _row(title: str, summary: Summary) -> tuple[str, ...]:
    return (
        title,
        device_name(summary.device),
        variant_name(summary.variant),
        numbers.estimate(summary.throughput),
        numbers.interval(summary.throughput),
        ", ".join(summary.trial_ids),
    )
