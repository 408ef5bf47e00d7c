"""Charts of speeds: variants, trials, sweep points, several GPUs, published ones, latency, and the machine's own."""

from __future__ import annotations

from statistics import median
from typing import Any

import altair as alt

from harness.model.analysis import (
    Analysis,
    Capability,
    Latency,
    PublishedComparison,
    RatioKind,
    Standing,
    Summary,
    Sweep,
    SweepPoint,
)
from harness.model.device import is_gpu, positions
from harness.wording import point_words, scalar_word
from reports import machine, numbers
from reports.charts import (
    COLOUR,
    INK_2,
    Figure,
    LegendKey,
    Table,
    device_colour,
    dot_plot,
    gpu_colour,
    panel,
    records_table,
    row_figure,
    rows,
    span,
    stacked,
)
from reports.overview import grew_most
from reports.step_time_charts import shown_pipelines
from reports.text import device_name, devices_of, titles_of, variant_name
from workloads.protocol import (
    BASELINE,
    INPUT_ONLY,
    MODEL_ONLY,
    SERVER,
    SINGLE_STREAM,
    TUNED,
    WITHOUT_PREFIX,
    changes_baseline,
    measures_speed,
)

# Ceilings come first, then the baseline and single changes, and tuned last.
_ORDER = {INPUT_ONLY: 0, MODEL_ONLY: 1, BASELINE: 2, TUNED: 4}


def speeds_figure(analysis: Analysis) -> Figure | None:
    """Draw the variants of each workload, with ceilings if input matters; None if nothing was changed."""
    devices = devices_of(analysis)
    places = list(devices)
    limited = {(each.workload, each.device) for each in shown_pipelines(analysis)}
    panels = {}
    for workload, title in titles_of(analysis).items():
        shown = [
            each
            for each in analysis.summaries
            if each.workload == workload
            and analysis.speed(each.key)
            and _shown(each.variant, ceilings=(workload, each.device) in limited)
        ]
        shown.sort(key=lambda each: (places.index(each.device), _ORDER.get(each.variant, 3)))
        if {BASELINE} < {each.variant for each in shown}:
            heading = f"{title}, requests/s within the latency bound" if analysis.serves(workload) else title
            several = len({each.device for each in shown}) > 1
            panels[heading] = [
                _speed_record(analysis, each, f"{devices[each.device]} " if several else "") for each in shown
            ]
    if not panels:
        return None
    return dot_plot(
        "figure-speeds",
        "Samples per second: single changes and all changes (tuned)",
        panels,
        table={"Workload": "heading", "Variant": "row", "Speed": "text", "Changes": "name"},
    )


def _speed_record(analysis: Analysis, each: Summary, device: str) -> dict[str, Any]:
    gain, value = analysis.gain(each.key), analysis.speed(each.key)
    assert value is not None  # others are not shown
    speed = numbers.speed(value)
    return {
        **span(value),
        "row": f"{device}{variant_name(each.variant)}",
        "text": f"{speed}, {numbers.factor(gain.median)}" if gain else speed,
        "name": ", ".join(f"{item.what} {item.before} → {item.after}" for item in each.changes),
        "colour": device_colour(each.device),
    }


def _shown(variant: str, *, ceilings: bool) -> bool:
    if variant in (INPUT_ONLY, MODEL_ONLY):
        return ceilings
    return variant in (BASELINE, TUNED) or (
        changes_baseline(variant) and not variant.startswith(WITHOUT_PREFIX)
    )


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speed / median; None if none was repeated."""
    devices = devices_of(analysis)
    records = [
        {
            "row": f"{summary.workload}, {devices[summary.device]}, {variant_name(summary.variant)}",
            "value": throughput / summary.throughput.median,
            "name": f"{trial_id}: {numbers.number(throughput)}/s",
            "text": "",
            "colour": device_colour(summary.device),
        }
        for summary in analysis.summaries
        if summary.variant in (BASELINE, TUNED) and summary.throughput.n > 1
        for trial_id, throughput in zip(summary.trial_ids, summary.trial_throughputs, strict=True)
    ]
    if not records:
        return None
    return dot_plot(
        "figure-trials",
        "Each trial relative to the median of its variant",
        {"": records},
        table={"Workload, device, variant": "row", "Trial": "name"},
        around=1.01,
    )


def published_figure(analysis: Analysis) -> Figure | None:
    """Draw each published speed, time or ratio that was measured here; None if there are none."""
    shown = [each for each in analysis.published if each.factor is not None]
    if not shown:
        return None
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels = {"": [_published_record(each, titles[each.workload], devices[each.device]) for each in shown]}
    columns = {
        "Workload": "where", "Published for": "name", "Published": "number", "Here": "here",
        "Here / published": "text", "Note": "note",
    }  # fmt: skip
    return dot_plot(
        "figure-published",
        "Measured here / published: 1× is equally fast",
        panels,
        table=columns,
        around=2.5,
    )


def _published_record(each: PublishedComparison, title: str, device: str) -> dict[str, Any]:
    assert each.factor is not None
    what = {"ratio": "GPU/CPU", "requests ratio": "GPU/CPU requests", "gain": "gain by tuning"}
    number = numbers.published(each.number)
    of = what.get(each.number.unit, device)
    if each.number.variant != BASELINE:
        of += f" {variant_name(each.number.variant)}"
    return {
        "row": f"{each.workload} {of} {number}, {each.number.system.split(',')[0]}",
        **span(each.factor),
        "text": numbers.quantity(each.factor),
        "name": f"{each.number.system}, {each.number.source}",
        "colour": device_colour(each.device),
        "where": f"{title}, {device}",
        "number": number,
        "here": numbers.quantity(each.measured),
        "note": each.number.note,
    }


_SCALING_LABELS_PX, _SCALING_HEIGHT_PX = 40, 160


def scaling_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed on several GPUs over that on one; None if a workload ran on one only."""
    panels = {title: _scaling_records(analysis, name) for name, title in titles_of(analysis).items()}
    drawn, table = [], []
    for title, records in panels.items():
        if len({each["gpus"] for each in records}) > 1:
            drawn.append(panel(*_scaling_layers(records), heading=title, height=_SCALING_HEIGHT_PX))
            table += [tuple(each[name] for name in ("where", "speed", "share", "grew")) for each in records]
    if not drawn:
        return None
    return Figure(
        id="figure-scaling",
        title="Speed on several GPUs over one GPU; the dashed line is ideal",
        spec=stacked(drawn, labels_px=_SCALING_LABELS_PX, spacing=48),
        table=Table(
            header=("Workload, device, variant", "Speed", "Efficiency", "Grew most"), rows=tuple(table)
        ),
        reserve_px=_SCALING_LABELS_PX + 20,
        legend=tuple(
            LegendKey(colour=colour, shape="line", name=variant)
            for variant, colour in {
                each["variant"]: each["colour"] for records in panels.values() for each in records
            }.items()
        ),
    )


def _scaling_layers(records: list[dict[str, Any]]) -> list[alt.Chart]:
    counts = sorted({each["gpus"] for each in records})
    axis = alt.Axis(title="GPUs", values=counts, format="d")
    x = alt.X("gpus:Q", scale=alt.Scale(padding=14, zero=False, nice=False), axis=axis)
    y = alt.Y("times:Q", axis=alt.Axis(title="times one GPU", values=counts, minExtent=_SCALING_LABELS_PX))
    ideal = alt.Chart(rows([{"gpus": each, "times": each, "colour": INK_2} for each in counts]))
    base = alt.Chart(rows(records)).encode(x=x, y=y, color=COLOUR)
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("where", "speed", "share", "grew")]
    return [
        ideal.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y, color=COLOUR),
        base.mark_line(),
        base.mark_point(filled=True, size=56).encode(tooltip=tooltip),
    ]


def _scaling_records(analysis: Analysis, workload: str) -> list[dict[str, Any]]:
    """Return a record for each number of GPUs and variant of a workload, fewest GPUs first."""
    own = [
        each
        for each in analysis.summaries
        if each.workload == workload and is_gpu(each.device) and measures_speed(each.variant)
    ]
    variants = list(dict.fromkeys(each.variant for each in own))
    records = [_scaling_record(analysis, each, gpu_colour(variants.index(each.variant))) for each in own]
    return sorted((each for each in records if each), key=lambda each: each["gpus"])


def _scaling_record(analysis: Analysis, each: Summary, colour: str) -> dict[str, Any]:
    """Return what is drawn of a variant on a device; {} if it was not measured on one GPU too."""
    gpus = len(positions(each.device))
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
        "grew": grew_most(analysis, each.key),
        "variant": variant,
        "colour": colour,
    }


_LATENCY_LABELS_PX, _LATENCY_HEIGHT_PX = 46, 180


def latency_figure(analysis: Analysis) -> Figure | None:
    """Draw each batch size and each offered rate; None if no requests were timed."""
    devices, panels = devices_of(analysis), {}
    for workload, title in titles_of(analysis).items():
        shown = [
            each
            for each in analysis.latencies
            if each.workload == workload and each.scenario in (SINGLE_STREAM, SERVER)
        ]
        if shown:
            panels[title] = [_latency_record(each, devices[each.device]) for each in shown]
    if not panels:
        return None
    x = alt.X(
        "rate:Q",
        scale=alt.Scale(type="log", padding=12),
        axis=alt.Axis(title="samples/s", format="~s", grid=False),
    )
    y = alt.Y(
        "high:Q",
        scale=alt.Scale(type="log", padding=8),
        axis=alt.Axis(title="ms, p50 to p99", format="~g", tickCount=3, minExtent=_LATENCY_LABELS_PX),
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("where", "what", "p50", "p99")]
    drawn = []
    for heading, records in panels.items():
        base = alt.Chart(rows(records)).encode(x=x, y=y, color=COLOUR)
        spans = base.mark_rule(strokeWidth=1.5).encode(y2="low:Q")
        points = base.mark_point(size=50, opacity=0.85).encode(
            fill=alt.Fill("fill:N", scale=None), shape=alt.Shape("shape:N", scale=None), tooltip=tooltip
        )
        drawn.append(panel(spans, points, heading=heading, height=_LATENCY_HEIGHT_PX))
    variants = dict.fromkeys(each.variant for each in analysis.latencies if each.variant != TUNED)
    names = {"square": ", ".join(map(variant_name, variants)), "dot": variant_name(TUNED)}
    return Figure(
        id="figure-latency",
        title="Latency of requests over throughput: sequential batches (filled) and offered rates (open)",
        spec=stacked(drawn, labels_px=_LATENCY_LABELS_PX, spacing=64),
        table=records_table(
            panels,
            {
                "Workload, device, variant": "where", "Requests": "what", "Served": "served",
                "p50": "p50", "p90": "p90", "p99": "p99", "Number": "number",
            },
        ),
        reserve_px=_LATENCY_LABELS_PX + 20,
        legend=tuple(LegendKey(colour="var(--ink-2)", shape=shape, name=name) for shape, name in names.items()),
    )  # fmt: skip


def _latency_record(each: Latency, device: str) -> dict[str, str | float]:
    quantiles = each.quantiles_s
    texts = {
        name: numbers.duration(quantiles[name]) if name in quantiles else "" for name in ("p50", "p90", "p99")
    }
    low, high = (1e3 * quantiles[name] for name in ("p50", "p99" if "p99" in quantiles else "p50"))
    offered = each.rate_per_s is not None
    number = f"{each.requests} of {each.planned}" if each.requests < each.planned else str(each.requests)
    return {
        "where": f"{each.workload}, {device}, {variant_name(each.variant)}",
        "what": f"{numbers.number(each.rate_per_s)}/s offered" if offered else f"batch of {each.batch_size}",
        "rate": each.samples_per_s.median,
        "served": numbers.speed(each.samples_per_s),
        "low": low,
        "high": high,
        "number": number,
        "shape": "circle" if each.variant == TUNED else "square",
        "colour": device_colour(each.device),
        "fill": "transparent" if offered else device_colour(each.device),
        **texts,
    }


# Further points are only in the table.
_MAX_DRAWN = 40


def sweep_figure(sweep: Sweep, title: str, number: int) -> Figure:
    """Draw one sweep.

    Args:
        number: makes the figure's id unique in a page.
    """
    records = [
        {
            **(span(each.throughput) if each.throughput else {}),
            # The names of several axes would not fit.
            "row": ", ".join(scalar_word(value) for _, value in each.point)
            if len(sweep.axes) > 1
            else point_words(each.point),
            "text": f"{numbers.speed(each.throughput)} {_outcome(sweep, each)}",
            "name": numbers.interval(each.throughput),
            "colour": device_colour(sweep.device),
        }
        for each in _ranked(sweep)[:_MAX_DRAWN]
    ]
    return dot_plot(
        f"figure-sweep-{number}",
        f"{title} on {device_name(sweep.device)}, {variant_name(sweep.variant)}: samples per second",
        {", ".join(sweep.axes) if len(sweep.axes) > 1 else "": records},
        table=sweep_table(sweep),
    )


def sweep_table(sweep: Sweep) -> Table:
    """Return the points from fastest to slowest, followed by those without a speed."""
    return Table(
        header=(*sweep.axes, "speed", "95 % interval", "over the fastest", "outcome"),
        rows=tuple(
            (
                *(scalar_word(dict(each.point)[name]) for name in sweep.axes),
                numbers.speed(each.throughput),
                numbers.interval(each.throughput),
                numbers.quantity(each.over_best),
                ": ".join(filter(None, (_outcome(sweep, each), each.message))),
            )
            for each in _ranked(sweep)
        ),
    )


def _ranked(sweep: Sweep) -> list[SweepPoint]:
    return sorted(sweep.points, key=lambda each: -each.throughput.median if each.throughput else 1.0)


def _outcome(sweep: Sweep, point: SweepPoint) -> str:
    if point.throughput is None:
        return point.status.value.replace("-", " ") if point.status else "not measured yet"
    if point == sweep.best:
        return "fastest"
    return "may be as fast" if point.tied else "" if point.tied is False else "too few trials"


def machine_figure(analysis: Analysis) -> Figure | None:
    """Draw a bar for each capability that a data sheet has; None without any."""
    devices = devices_of(analysis)
    panels: dict[str, list[dict[str, Any]]] = {}
    for each in analysis.capabilities:
        if each.sheet:
            panels.setdefault(devices[each.device], []).append(_bar(each, each.sheet))
    if not panels:
        return None
    most = max(1.0, *(record["share"] for records in panels.values() for record in records))
    x = alt.X(
        "share:Q", scale=alt.Scale(domain=[0, most]), axis=alt.Axis(title=None, format="%", tickCount=5)
    )
    whole = (
        alt.Chart(rows([{"share": 1.0}])).mark_rule(strokeWidth=1, strokeDash=[4, 3], color=INK_2).encode(x=x)
    )

    def layers(number: int, base: alt.Chart) -> list[alt.Chart]:
        return [base.mark_bar(height=9).encode(x=x, color=COLOUR), whole]

    columns = {
        "Device": "heading",
        "Capability": "row",
        "Measured": "text",
        "Interval": "interval",
        "At": "at",
    }
    return row_figure(
        "figure-machine", "Share of the data sheet (dashed line)", panels, layers, table=columns
    )


def _bar(each: Capability, sheet: float) -> dict[str, Any]:
    ends = " to ".join(numbers.rate(end, each.value.unit) for end in (each.value.low, each.value.high))
    return {
        "row": machine.capability_name(each.name),
        "share": each.value.median / sheet,
        "text": machine.capability(each),
        "interval": ends if each.value.known else numbers.ONE,
        "at": machine.load(each) or numbers.MISSING,
        "colour": device_colour(each.device),
    }


def kind_figure(analysis: Analysis) -> Figure | None:
    """Draw each value as a dot among those of all known devices of its kind; None without any."""
    devices = devices_of(analysis)
    panels: dict[str, list[dict[str, Any]]] = {}
    cells: list[tuple[str, ...]] = []
    for each in analysis.standings:
        device = devices.get(each.value.device, device_name(each.value.device))
        heading = f"{device}, {each.kind}"
        row = _quantity_name(each.value.name)
        place = ", ".join(filter(None, (machine.place(each), machine.why(each))))
        panels.setdefault(heading, []).extend(_dots(each, row, place))
        low, middle, high = (min(each.others), median(each.others), max(each.others))
        unit = each.value.estimate.unit
        texts = (numbers.rate(value, unit) for value in (each.value.estimate.median, low, middle, high))
        cells.append((heading, row, *texts, place))
    if not panels:
        return None
    header = ("Device", "Quantity", "Here", "Lowest", "Median", "Highest", "Place")
    return dot_plot(
        "figure-kind",
        "Over the median of known machines of its kind: this one in colour",
        panels,
        table=Table(header=header, rows=tuple(cells)),
        around=1.05,
    )


def _dots(each: Standing, row: str, place: str) -> list[dict[str, Any]]:
    middle = median(each.others)
    estimate = each.value.estimate
    others = [
        {
            "value": other / middle,
            "low": other / middle,
            "high": other / middle,
            "text": "",
            "name": "another",
            "colour": INK_2,
        }
        for other in each.others
    ]
    own = {
        **span(estimate, 1 / middle),
        "text": f"{numbers.percent(each.ratio)}, {place}",
        "name": "this machine",
    }
    return [
        *({"row": row, **other} for other in others),
        {"row": row, **own, "colour": device_colour(each.value.device)},
    ]


def _quantity_name(name: str) -> str:
    kind, _, rest = name.partition(".")
    return machine.capability_name(rest) if kind == "capability" else name
