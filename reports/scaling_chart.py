"""Chart of speed over the number of GPUs, beside ideal scaling."""

from __future__ import annotations

from typing import Any

import altair as alt

from harness.model.analysis import Analysis, RatioKind, Summary, find_by_key
from reports import numbers
from reports.charts import COLOUR, INK_2, Figure, Key, Table, panel, rows, stacked
from reports.names import device_name, is_gpu, titles_of, variant_name
from reports.palette import gpu_colour
from workloads.protocol import measures_speed

_LABELS_PX, _HEIGHT_PX = 40, 160


def scaling_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed on several GPUs over that on one; None if a workload ran on one only."""
    panels = {title: _records(analysis, name) for name, title in titles_of(analysis).items()}
    drawn, table = [], []
    for title, records in panels.items():
        if len({each["gpus"] for each in records}) > 1:
            drawn.append(panel(*_layers(records), heading=title, height=_HEIGHT_PX))
            table += [tuple(each[name] for name in ("where", "speed", "share", "grew")) for each in records]
    if not drawn:
        return None
    return Figure(
        id="figure-scaling",
        title="Speed on several GPUs over one GPU; the dashed line is ideal",
        spec=stacked(drawn, labels_px=_LABELS_PX, spacing=48),
        table=Table(
            header=("Workload, device, variant", "Speed", "Efficiency", "Grew most"), rows=tuple(table)
        ),
        reserve_px=_LABELS_PX + 20,
        legend=tuple(dict.fromkeys(each["key"] for records in panels.values() for each in records)),
    )


def _layers(records: list[dict[str, Any]]) -> list[alt.Chart]:
    counts = sorted({each["gpus"] for each in records})
    axis = alt.Axis(title="GPUs", values=counts, format="d")
    x = alt.X("gpus:Q", scale=alt.Scale(padding=14, zero=False, nice=False), axis=axis)
    y = alt.Y("times:Q", axis=alt.Axis(title="times one GPU", values=counts, minExtent=_LABELS_PX))
    ideal = alt.Chart(rows([{"gpus": each, "times": each, "colour": INK_2} for each in counts]))
    drawn = [{name: value for name, value in each.items() if name != "key"} for each in records]
    base = alt.Chart(rows(drawn)).encode(x=x, y=y, color=COLOUR)
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("where", "speed", "share", "grew")]
    return [
        ideal.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y, color=COLOUR),
        base.mark_line(),
        base.mark_point(filled=True, size=56).encode(tooltip=tooltip),
    ]


def _records(analysis: Analysis, workload: str) -> list[dict[str, Any]]:
    """Return a record for each number of GPUs and variant of a workload, fewest GPUs first."""
    own = [
        each
        for each in analysis.summaries
        if each.workload == workload and is_gpu(each.device) and measures_speed(each.variant)
    ]
    variants = list(dict.fromkeys(each.variant for each in own))
    records = [_record(analysis, each, gpu_colour(variants.index(each.variant))) for each in own]
    return sorted((each for each in records if each), key=lambda each: each["gpus"])


def _record(analysis: Analysis, each: Summary, colour: str) -> dict[str, Any]:
    """Return what is drawn of a variant on a device; {} if it was not measured on one GPU too."""
    gpus = each.device.count("+") + 1
    share = analysis.ratio(RatioKind.SCALING, each.key)
    if gpus > 1 and share is None:
        return {}
    variant = variant_name(each.variant)
    return {
        "gpus": gpus,
        "times": gpus * share.median if share else 1.0,
        "where": f"{each.workload}, {device_name(each.device)}, {variant}",
        "speed": numbers.speed(each.throughput),
        "share": numbers.percent(share.median if share else None),
        "grew": _grew(analysis, each),
        "key": Key(colour=colour, shape="line", name=variant),
        "colour": colour,
    }


def _grew(analysis: Analysis, each: Summary) -> str:
    """Return the part of the step that grew most from one GPU, and by how much; "" if none is known to."""
    one = next(
        (
            time
            for time in analysis.step_times
            if is_gpu(time.device)
            and "+" not in time.device
            and time.key == each.key._replace(device=time.device)
        ),
        None,
    )
    several = find_by_key(analysis.step_times, each.key)
    if one is None or several is None or several is one:
        return ""
    added = {
        part: value.median - (one.parts[part].median if part in one.parts else 0.0)
        for part, value in several.parts.items()
    }
    part = max(added, key=lambda name: added[name])
    return f"{part.value} +{numbers.duration(added[part])}" if added[part] > 0 else ""
