"""Further bars: the way from as-written to tuned, what the input pipeline's stages allow, training times."""

from __future__ import annotations

from harness.model import Analysis, Summary
from reports import numbers
from reports.bars import LABELS_PX, Bar, bar_panel, colour, estimate_bar, row_label
from reports.charts import Figure, Table, chart
from reports.names import device_name, is_gpu, leg_name
from reports.speed_chart import DIAMOND, SPEED_LEGS, device_legend, published_bar
from reports.titles import titles_of
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, MODEL_ONLY, RUNG_PREFIX, STAGE_PREFIX, TUNED


def ladder_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed of each step between as-written and tuned; None where no workload has such steps."""
    groups = _groups(analysis, lambda leg: leg.startswith(RUNG_PREFIX) or leg in SPEED_LEGS, RUNG_PREFIX)
    order = {AS_WRITTEN: 0, TUNED: 2}
    ordered = [sorted(group, key=lambda summary: order.get(summary.leg, 1)) for group in groups]
    return _steps_figure(
        analysis, ordered, id_="figure-ladder", title="From as written to tuned, samples per second", rank=20,
        description="Bars of throughput for each step from the published code to the tuned one. Each step has all "
        "that the ones before it have, unless the table of changes says otherwise.",
    )  # fmt: skip


def stages_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed of the input pipeline cut off after each stage; None where no stage was measured."""
    limits = (INPUT_ONLY, MODEL_ONLY, AS_WRITTEN)
    groups = _groups(analysis, lambda leg: leg.startswith(STAGE_PREFIX) or leg in limits, STAGE_PREFIX)
    order = {INPUT_ONLY: 1, MODEL_ONLY: 2, AS_WRITTEN: 3}
    ordered = [sorted(group, key=lambda summary: order.get(summary.leg, 0)) for group in groups]
    return _steps_figure(
        analysis, ordered, id_="figure-stages", title="What the input pipeline allows, samples per second", rank=21,
        description="Bars of throughput of the input pipeline drained up to each of its stages, beside the "
        "whole pipeline alone, the model alone, and training as written.",
    )  # fmt: skip


def training_figure(analysis: Analysis) -> Figure | None:
    """Draw the time to train the published epochs beside published times; None without published times."""
    titles = titles_of(analysis)
    panels, rows, used = [], [], []
    for workload in titles:
        others = [each for each in analysis.published if each.workload == workload and each.unit == "s"]
        own = [
            s for s in analysis.summaries if s.workload == workload and s.leg in SPEED_LEGS and s.training_s
        ]
        if not others or not own:
            continue
        bars: list[Bar] = []
        for summary in own:
            assert summary.training_s is not None
            how = "projected" if summary.training_projected else "measured"
            bar = estimate_bar(
                row_label(summary), summary.training_s, fill=colour(summary.device, summary.leg),
                trial_ids=summary.trial_ids,
            )  # fmt: skip
            text = numbers.duration(summary.training_s.median)
            bars.append(_retold(bar, text, f"{how}; {bar.interval}"))
            rows.append(
                (titles[workload], device_name(summary.device), leg_name(summary.leg), text, how,
                 ", ".join(summary.trial_ids))
            )  # fmt: skip
        bars += [published_bar(each) for each in others]
        rows += [
            (
                titles[workload],
                each.system,
                "published",
                numbers.duration(each.value),
                "published",
                each.source,
            )
            for each in others
        ]
        panels.append(bar_panel(titles[workload], bars, unit="time"))
        used += own
    if not panels:
        return None
    return Figure(
        id="figure-training",
        title="Time to train the published epochs",
        description="Bars of training time measured or projected on this machine, and diamonds for published times.",
        spec=chart(panels, spacing=18),
        table=Table(
            header=("Workload", "Device", "Leg", "Time", "How", "Trials or source"), rows=tuple(rows)
        ),
        reserve_px=LABELS_PX + 4,
        rank=10,
        legend=(*device_legend(used), DIAMOND),
        trial_ids=tuple(dict.fromkeys(trial for summary in used for trial in summary.trial_ids)),
    )


def _retold(bar: Bar, text: str, interval: str) -> Bar:
    return Bar(
        label=bar.label, value=bar.value, low=bar.low, high=bar.high, text=text, interval=interval,
        colour=bar.colour, source=bar.source,
    )  # fmt: skip


def _groups(analysis: Analysis, wanted: object, prefix: str) -> list[list[Summary]]:
    assert callable(wanted)
    found: dict[tuple[str, str], list[Summary]] = {}
    for summary in analysis.summaries:
        if wanted(summary.leg):
            found.setdefault((summary.workload, summary.device), []).append(summary)
    return [group for group in found.values() if any(each.leg.startswith(prefix) for each in group)]


def _steps_figure(
    analysis: Analysis, groups: list[list[Summary]], *, id_: str, title: str, rank: int, description: str
) -> Figure | None:
    titles = titles_of(analysis)
    if not groups:
        return None
    panels = []
    for group in groups:
        first = group[0]
        bars = [
            estimate_bar(
                leg_name(summary.leg), summary.throughput, trial_ids=summary.trial_ids,
                fill=f"var(--{'gpu' if is_gpu(first.device) else 'cpu'})",
            )
            for summary in group
        ]  # fmt: skip
        heading = f"{titles[first.workload]}: {device_name(first.device)}"
        panels.append(bar_panel(heading, bars, unit=first.throughput.unit))
    flat = [summary for group in groups for summary in group]
    rows = tuple(
        (
            titles[summary.workload], device_name(summary.device), leg_name(summary.leg),
            numbers.estimate(summary.throughput), numbers.interval(summary.throughput),
            ", ".join(summary.trial_ids),
        )
        for summary in flat
    )  # fmt: skip
    return Figure(
        id=id_,
        title=title,
        description=description,
        spec=chart(panels, spacing=18),
        table=Table(header=("Workload", "Device", "Step", "samples/s", "95 % interval", "Trials"), rows=rows),
        reserve_px=LABELS_PX + 4,
        rank=rank,
        trial_ids=tuple(dict.fromkeys(trial for summary in flat for trial in summary.trial_ids)),
    )
