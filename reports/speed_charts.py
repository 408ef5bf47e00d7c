"""Charts of speeds: variants, trials, sweep points, several GPUs, published ones, latency, and the machine's own."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import altair as alt

from harness.model.analysis import (
    Analysis,
    Capability,
    CaseResult,
    Latency,
    PublishedComparison,
    RatioKind,
    Standing,
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
from reports.step_time_charts import is_input_shown
from reports.text import device_name, devices_of, titles_of
from workloads.protocol import SERVER, SINGLE_STREAM, all_reduce_mib
from workloads.variants import (
    BASELINE,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    measures_speed,
    runs_script,
    variant_name,
)

# Ceilings come first, then the baseline and single changes, and tuned last.
_ORDER = {INPUT_ONLY: 0, MODEL_ONLY: 1, BASELINE: 2, TUNED: 4}


def speeds_figure(analysis: Analysis) -> Figure | None:
    """Draw the variants of each workload, with ceilings if input matters; None if nothing was changed."""
    devices = devices_of(analysis)
    places = list(devices)
    panels = {}
    for workload, title in titles_of(analysis).items():
        shown = [
            (case, variant)
            for case in sorted(analysis.cases_of(workload), key=lambda case: places.index(case.device))
            for variant in sorted(case.variants, key=lambda variant: _ORDER.get(variant, 3))
            if case.speed(variant) and _shown(variant, ceilings=is_input_shown(case))
        ]
        if {BASELINE} < {variant for _, variant in shown}:
            serves = shown[0][0].serves
            heading = f"{title}, requests/s within the latency bound" if serves else title
            several = len({case.device for case, _ in shown}) > 1
            panels[heading] = [
                _speed_record(case, variant, f"{devices[case.device]} " if several else "")
                for case, variant in shown
            ]
    if not panels:
        return None
    return dot_plot(
        "figure-speeds",
        "Samples per second: single changes and all changes (tuned)",
        panels,
        table={"Workload": "heading", "Variant": "row", "Speed": "text", "Changes": "name"},
    )


def _speed_record(case: CaseResult, variant: str, device: str) -> dict[str, Any]:
    gain, value = case.gain(variant), case.speed(variant)
    assert value is not None  # others are not shown
    speed = numbers.speed(value)
    return {
        **span(value),
        "row": f"{device}{variant_name(variant)}",
        "text": f"{speed}, {numbers.factor(gain.median)}" if gain else speed,
        "name": ", ".join(
            f"{item.what} {item.before} → {item.after}" for item in case.variants[variant].changes
        ),
        "colour": device_colour(case.device),
    }


def _shown(variant: str, *, ceilings: bool) -> bool:
    if variant in (INPUT_ONLY, MODEL_ONLY):
        return ceilings
    return runs_script(variant)


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speed / median; None if none was repeated."""
    devices = devices_of(analysis)
    records = [
        {
            "row": f"{case.workload}, {devices[case.device]}, {variant_name(variant)}",
            "value": throughput / result.throughput.median,
            "name": f"{trial_id}: {numbers.number(throughput)}/s",
            "text": "",
            "colour": device_colour(case.device),
        }
        for case, variant, result in analysis.variants
        if variant in (BASELINE, TUNED) and len(result.trial_throughputs) > 1
        for trial_id, throughput in zip(result.trial_ids, result.trial_throughputs, strict=True)
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
    shown = [comparison for comparison in analysis.published if comparison.factor is not None]
    if not shown:
        return None
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels = {
        "": [
            _published_record(comparison, titles[comparison.workload], devices[comparison.device])
            for comparison in shown
        ]
    }
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


def _published_record(comparison: PublishedComparison, title: str, device: str) -> dict[str, Any]:
    assert comparison.factor is not None
    what = {"ratio": "GPU/CPU", "requests ratio": "GPU/CPU requests", "gain": "gain by tuning"}
    number = numbers.published(comparison.number)
    of = what.get(comparison.number.unit, device)
    if comparison.number.variant != BASELINE:
        of += f" {variant_name(comparison.number.variant)}"
    return {
        "row": f"{comparison.workload} {of} {number}, {comparison.number.system.split(',')[0]}",
        **span(comparison.factor),
        "text": numbers.quantity(comparison.factor),
        "name": f"{comparison.number.system}, {comparison.number.source}",
        "colour": device_colour(comparison.device),
        "where": f"{title}, {device}",
        "number": number,
        "here": numbers.quantity(comparison.measured),
        "note": comparison.number.note,
    }


_SCALING_LABELS_PX, _SCALING_HEIGHT_PX = 40, 160


def scaling_figure(analysis: Analysis) -> Figure | None:
    """Draw the speed on several GPUs over that on one; None if a workload ran on one only."""
    panels = {title: _scaling_records(analysis, name) for name, title in titles_of(analysis).items()}
    drawn, table = [], []
    for title, records in panels.items():
        if len({record["gpus"] for record in records}) > 1:
            drawn.append(panel(*_scaling_layers(records), heading=title, height=_SCALING_HEIGHT_PX))
            table += [
                tuple(record[name] for name in ("where", "speed", "share", "grew")) for record in records
            ]
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
                record["variant"]: record["colour"] for records in panels.values() for record in records
            }.items()
        ),
    )


def _scaling_layers(records: list[dict[str, Any]]) -> list[alt.Chart]:
    counts = sorted({record["gpus"] for record in records})
    axis = alt.Axis(title="GPUs", values=counts, format="d")
    x = alt.X("gpus:Q", scale=alt.Scale(padding=14, zero=False, nice=False), axis=axis)
    y = alt.Y("times:Q", axis=alt.Axis(title="times one GPU", values=counts, minExtent=_SCALING_LABELS_PX))
    ideal = alt.Chart(rows([{"gpus": count, "times": count, "colour": INK_2} for count in counts]))
    base = alt.Chart(rows(records)).encode(x=x, y=y, color=COLOUR)
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("where", "speed", "share", "grew")]
    return [
        ideal.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y, color=COLOUR),
        base.mark_line(),
        base.mark_point(filled=True, size=56).encode(tooltip=tooltip),
    ]


def _scaling_records(analysis: Analysis, workload: str) -> list[dict[str, Any]]:
    """Return a record for each number of GPUs and variant of a workload, fewest GPUs first."""
    cases = analysis.cases_of(workload)
    own = [
        (case, variant)
        for case in cases
        if is_gpu(case.device)
        for variant in case.variants
        if measures_speed(variant)
    ]
    variants = list(dict.fromkeys(variant for _, variant in own))
    records = [
        _scaling_record(cases, case, variant, gpu_colour(variants.index(variant))) for case, variant in own
    ]
    return sorted((record for record in records if record), key=lambda record: record["gpus"])


def _scaling_record(
    cases: Sequence[CaseResult], case: CaseResult, variant: str, colour: str
) -> dict[str, Any]:
    """Return what is drawn of a variant on a device; {} if it was not measured on one GPU too."""
    gpus = len(positions(case.device))
    share = case.ratio(RatioKind.SCALING, variant)
    if gpus > 1 and share is None:
        return {}
    return {
        "gpus": gpus,
        "times": gpus * share.median if share else 1.0,
        "where": f"{case.workload}, {device_name(case.device)}, {variant_name(variant)}",
        "speed": numbers.speed(case.variants[variant].throughput),
        "share": numbers.percent(share.median if share else None),
        "grew": grew_most(cases, case, variant),
        "variant": variant_name(variant),
        "colour": colour,
    }


_LATENCY_LABELS_PX, _LATENCY_HEIGHT_PX = 46, 180


def latency_figure(analysis: Analysis) -> Figure | None:
    """Draw each batch size and each offered rate; None if no requests were timed."""
    devices, panels = devices_of(analysis), {}
    for workload, title in titles_of(analysis).items():
        records = [
            _latency_record(latency, case, variant, devices[case.device])
            for case in analysis.cases_of(workload)
            for variant, result in sorted(case.variants.items())
            for latency in result.latencies
            if latency.scenario in (SINGLE_STREAM, SERVER)
        ]
        if records:
            panels[title] = records
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
    variants = dict.fromkeys(name for _, name, each in analysis.variants if each.latencies and name != TUNED)
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


def _latency_record(latency: Latency, case: CaseResult, variant: str, device: str) -> dict[str, str | float]:
    quantiles = latency.quantiles_s
    texts = {
        name: numbers.duration(quantiles[name]) if name in quantiles else "" for name in ("p50", "p90", "p99")
    }
    low, high = (1e3 * quantiles[name] for name in ("p50", "p99" if "p99" in quantiles else "p50"))
    offered = latency.rate_per_s is not None
    number = (
        f"{latency.requests} of {latency.planned}"
        if latency.requests < latency.planned
        else str(latency.requests)
    )
    return {
        "where": f"{case.workload}, {device}, {variant_name(variant)}",
        "what": f"{numbers.number(latency.rate_per_s)}/s offered"
        if offered
        else f"batch of {latency.batch_size}",
        "rate": latency.samples_per_s.median,
        "served": numbers.speed(latency.samples_per_s),
        "low": low,
        "high": high,
        "number": number,
        "shape": "circle" if variant == TUNED else "square",
        "colour": device_colour(case.device),
        "fill": "transparent" if offered else device_colour(case.device),
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
            **(span(point.throughput) if point.throughput else {}),
            # The names of several axes would not fit.
            "row": ", ".join(scalar_word(value) for _, value in point.point)
            if len(sweep.axes) > 1
            else point_words(point.point),
            "text": f"{numbers.speed(point.throughput)} {_outcome(sweep, point)}",
            "name": numbers.interval(point.throughput),
            "colour": device_colour(sweep.device),
        }
        for point in _ranked(sweep)[:_MAX_DRAWN]
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
                *(scalar_word(dict(point.point)[name]) for name in sweep.axes),
                numbers.speed(point.throughput),
                numbers.interval(point.throughput),
                numbers.quantity(point.over_best),
                ": ".join(filter(None, (_outcome(sweep, point), point.message))),
            )
            for point in _ranked(sweep)
        ),
    )


def _ranked(sweep: Sweep) -> list[SweepPoint]:
    return sorted(sweep.points, key=lambda point: -point.throughput.median if point.throughput else 1.0)


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
    for capability in analysis.capabilities:
        if capability.sheet:
            panels.setdefault(devices[capability.device], []).append(_bar(capability, capability.sheet))
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
        "Mean clock and power of this GPU meanwhile": "at",
    }
    return row_figure(
        "figure-machine", "Share of the data sheet (dashed line)", panels, layers, table=columns
    )


def _bar(capability: Capability, sheet: float) -> dict[str, Any]:
    ends = " to ".join(
        numbers.rate(end, capability.value.unit) for end in (capability.value.low, capability.value.high)
    )
    return {
        "row": machine.capability_name(capability.name),
        "share": capability.value.median / sheet,
        "text": machine.capability_text(capability),
        "interval": ends if capability.value.known else numbers.ONE,
        "at": machine.load_text(capability) or numbers.MISSING,
        "colour": device_colour(capability.device),
    }


_SUMS_LABELS_PX, _SUMS_HEIGHT_PX = 46, 160


def all_reduce_figure(analysis: Analysis) -> Figure | None:
    """Draw the bus bandwidth of the all-reduce by size, beside copies of the slowest pair; None without sizes."""
    panels, table = [], []
    slowest = min(
        (pair.value.median for pair in analysis.pairs if is_gpu(pair.source) and is_gpu(pair.target)),
        default=0.0,
    )
    for device, measured in machine.all_reduces(analysis).items():
        name = device_name(device)
        sizes = [all_reduce_mib(capability.name) for capability in measured]
        records = [
            {
                "mib": all_reduce_mib(capability.name),
                "speed": capability.value.median / 1e9,
                "size": machine.capability_name(capability.name),
                "text": numbers.rate(capability.value.median, capability.value.unit),
                "colour": gpu_colour(0),
            }
            for capability in measured
        ]
        table += [(f"{name}, {record['size']}", str(record["text"])) for record in records]
        x = alt.X("mib:Q", scale=alt.Scale(type="log", base=2, nice=False, padding=14),
                  axis=alt.Axis(title="MiB", values=sizes, format="d"))  # fmt: skip
        axis = alt.Axis(title="GB/s", minExtent=_SUMS_LABELS_PX, tickCount=5)
        y = alt.Y("speed:Q", scale=alt.Scale(zero=True), axis=axis)
        base = alt.Chart(rows(records)).encode(x=x, y=y, color=COLOUR)
        tooltip = [alt.Tooltip(f"{name_}:N") for name_ in ("size", "text")]
        layers = [base.mark_line(), base.mark_point(filled=True, size=56).encode(tooltip=tooltip)]
        if slowest:
            line = alt.Chart(rows([{"speed": slowest / 1e9}]))
            layers.append(line.mark_rule(strokeWidth=1, strokeDash=[4, 3], color=INK_2).encode(y=y))
        panels.append(panel(*layers, heading=name, height=_SUMS_HEIGHT_PX))
    if not panels:
        return None
    return Figure(
        id="figure-all-reduce",
        title="All-reduce by size, bus bandwidth"
        + ("; the dashed line is a copy between the slowest pair" if slowest else ""),
        spec=stacked(panels, labels_px=_SUMS_LABELS_PX, spacing=40),
        table=Table(header=("GPUs, size", "Bus bandwidth"), rows=tuple(table)),
        reserve_px=_SUMS_LABELS_PX + 20,
    )


def kind_figure(analysis: Analysis) -> Figure | None:
    """Draw each value as a dot among those of all known devices of its kind; None without any."""
    devices = devices_of(analysis)
    panels: dict[str, list[dict[str, Any]]] = {}
    cells: list[tuple[str, ...]] = []
    for standing in analysis.standings:
        device = devices.get(standing.value.device, device_name(standing.value.device))
        heading = f"{device}, {standing.kind}"
        row = _quantity_name(standing.value.name)
        place = ", ".join(filter(None, (machine.place(standing), machine.why(standing))))
        panels.setdefault(heading, []).extend(_dots(standing, row, place))
        low, middle, high = (min(standing.others), median(standing.others), max(standing.others))
        unit = standing.value.estimate.unit
        texts = (numbers.rate(value, unit) for value in (standing.value.estimate.median, low, middle, high))
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


def _dots(standing: Standing, row: str, place: str) -> list[dict[str, Any]]:
    middle = median(standing.others)
    estimate = standing.value.estimate
    others = [
        {
            "value": other / middle,
            "low": other / middle,
            "high": other / middle,
            "text": "",
            "name": "another",
            "colour": INK_2,
        }
        for other in standing.others
    ]
    own = {
        **span(estimate, 1 / middle),
        "text": f"{numbers.percent(standing.ratio)}, {place}",
        "name": "this machine",
    }
    return [
        *({"row": row, **other} for other in others),
        {"row": row, **own, "colour": device_colour(standing.value.device)},
    ]


def _quantity_name(name: str) -> str:
    kind, _, rest = name.partition(".")
    return machine.capability_name(rest) if kind == "capability" else name
