"""From a comparison of runs to text: one HTML page, Markdown for a pull request, or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from harness.model.comparison import Gate, Versus
from harness.rounding import short_digests
from reports.bundle import bundle_text
from reports.compare_charts import figures_of
from reports.compare_page import page_of
from reports.frame import Drawing, framed, here, stills
from reports.render import html_environment, markdown_environment
from reports.scaling_charts import rate
from reports.table import cell

COLUMNS = (
    "run", "run_id", "created", "machine", "workload", "device", "variant", "trials", "samples_per_s",
    "samples_per_s_low", "samples_per_s_high", "ratio", "ratio_low", "ratio_high", "joint_low", "joint_high",
    "outcome", "detectable_slowdown", "trials_needed", "not_comparable", "reference",
)  # fmt: skip


def render_html(
    versus: Versus,
    document: Mapping[str, Any],
    *,
    gate: Gate | None = None,
    version: str = "",
    bundle: Callable[[], str] = bundle_text,
    draw: Drawing = here,
) -> str:
    """Write the comparison as one HTML page without any external reference.

    Args:
        versus: what to show.
        document: the same as plain values, for the page to carry.
        gate: checks against a baseline, where one was asked for.
        version: of this program.
        bundle: gives the charts' code; asked last, so that it may be made meanwhile.
        draw: begins to draw a figure for paper; asked early for the same reason.
    """
    figures = figures_of(versus)
    return framed(
        html_environment(digest=short_digests, rate=rate),
        "compare.html",
        page_of(versus, gate, version, figures, stills(figures, draw)),
        folder="compare",
        figures=figures,
        document=document,
        bundle=bundle,
    )


def render_markdown(versus: Versus, *, gate: Gate | None = None, version: str = "") -> str:
    """Write the comparison in GitHub's Markdown, short enough for a pull request."""
    template = markdown_environment(digest=short_digests, rate=rate).get_template("compare.md")
    return template.render(page=page_of(versus, gate, version, {}, {})).strip() + "\n"


def render_csv(versus: Versus) -> str:
    """Write every speed as a row of CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    over = "median of its kind" if versus.reference is None else versus.runs[versus.reference].label
    for each in versus.results:
        run = versus.runs[each.run]
        bounds = [
            side
            for value in (each.speed, each.ratio)
            for side in ((value.median, value.low, value.high) if value and value.n > 1
                         else (value.median if value else None, None, None))
        ]  # fmt: skip
        joint = (each.joint.low, each.joint.high) if each.joint else (None, None)
        row = (
            run.label, run.run_id, run.created, run.machine, each.workload, each.device, each.variant,
            each.speed.n, *bounds, *joint, each.outcome.value, each.detectable, each.trials_needed,
            " ".join(each.not_comparable), over,
        )  # fmt: skip
        writer.writerow([cell(value) for value in row])
    return text.getvalue()
