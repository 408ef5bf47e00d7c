"""Chart and table of the points of a sweep, fastest first."""

from __future__ import annotations

from harness.model.analysis import Sweep, SweepPoint
from harness.wording import point_words, scalar_word
from reports import numbers
from reports.charts import Figure, Table, device_colour, dot_plot, span
from reports.names import device_name, variant_name

# Further points are only in the table.
_MAX_DRAWN = 40


def sweep_figure(sweep: Sweep, title: str, number: int) -> Figure:
    """Draw one sweep.

    Args:
        title: title of the workload.
        number: makes the figure's id unique in a page.
    """
    records = [
        {
            **(span(each.throughput) if each.throughput else {}),
            "row": point_words(each.point),
            "text": f"{numbers.speed(each.throughput)} {_outcome(sweep, each)}",
            "name": numbers.interval(each.throughput),
            "colour": device_colour(sweep.device),
        }
        for each in _ranked(sweep)[:_MAX_DRAWN]
    ]
    return dot_plot(
        f"figure-sweep-{number}",
        f"{title} on {device_name(sweep.device)}, {variant_name(sweep.variant)}: samples per second",
        {"": records},
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
    """Return the outcome of a point in a few words."""
    if point.throughput is None:
        return point.status.value.replace("-", " ") if point.status else "not measured yet"
    if point == sweep.best:
        return "fastest"
    return "may be as fast" if point.tied else "" if point.tied is False else "too few trials"
