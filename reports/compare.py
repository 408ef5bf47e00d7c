"""From a comparison of runs to text: one HTML page, Markdown for a pull request, or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from harness.model.comparison import Gate, Versus
from harness.rounding import short_digests
from reports.bundle import bundle_text
from reports.charts import Figure
from reports.compare_charts import figures_of
from reports.compare_page import ComparePage, banners, mark, titles_of
from reports.frame import Drawing, framed, here, stills
from reports.render import html_environment, markdown_environment
from reports.table import cell

COLUMNS = (
    "run", "run_id", "created", "machine", "workload", "device", "variant", "samples_per_s", "ratio", "ratio_low",
    "ratio_high", "joint_low", "joint_high", "outcome", "detectable_slowdown", "trials_needed", "unlike",
    "reference",
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
    page = _page(versus, gate, version)
    figures = figures_of(versus, page.titles, page.scored_over())
    environment = html_environment(mark=mark, digest=short_digests)
    whole = _page(versus, gate, version, figures, stills(figures, draw))
    return framed(
        environment,
        "compare.html",
        whole,
        folder="compare",
        figures=figures,
        document=document,
        bundle=bundle,
    )


def render_markdown(versus: Versus, *, gate: Gate | None = None, version: str = "") -> str:
    """Write the comparison in GitHub's Markdown, short enough for a pull request."""
    environment = markdown_environment(mark=mark, digest=short_digests)
    text = environment.get_template("compare.md").render(page=_page(versus, gate, version))
    return text.strip() + "\n"


def render_csv(versus: Versus) -> str:
    """Write every ratio as a row of CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    over = "median of its kind" if versus.reference is None else versus.runs[versus.reference].label
    for one in versus.ratios:
        run = versus.runs[one.run]
        interval = (one.ratio.low, one.ratio.high) if one.ratio.n > 1 else ("", "")
        joint = (one.joint.low, one.joint.high) if one.joint else ("", "")
        row = (
            run.label, run.run_id, run.created, run.machine, one.workload, one.device, one.variant, one.speed,
            one.ratio.median, *interval, *joint, one.outcome.value, one.detectable,
            one.trials_needed, " ".join(one.unlike), over,
        )  # fmt: skip
        writer.writerow([cell(value) for value in row])
    return text.getvalue()


def _page(
    versus: Versus,
    gate: Gate | None,
    version: str,
    figures: Mapping[str, Figure] | None = None,
    drawn: Mapping[str, Markup] | None = None,
) -> ComparePage:
    return ComparePage(
        versus=versus,
        gate=gate,
        figures=figures or {},
        stills=drawn or {},
        titles=titles_of(versus),
        anchors={},
        banners=banners(versus, gate),
        version=version,
    )
