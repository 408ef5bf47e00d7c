"""From a history of runs to text: one HTML page, Markdown, or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.model.history import ChangePoint, History, Trend
from harness.rounding import counted
from reports import numbers
from reports.bundle import bundle_text
from reports.charts import Figure
from reports.frame import Drawing, framed, here, stills
from reports.history_chart import figures_of, trend_name
from reports.page import SENTENCE_END, Banner
from reports.render import html_environment, markdown_environment
from reports.table import cell

COLUMNS = (
    "run", "run_id", "created", "machine", "workload", "device", "variant", "setting", "image", "samples_per_s",
    "low", "high", "trials", "change_ratio", "change_low", "change_high",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """A history made ready for templates; `anchors` is empty: trials are in the runs' own reports."""

    history: History
    figures: Mapping[str, Figure]
    stills: Mapping[str, Markup]
    anchors: Mapping[str, str]
    banners: tuple[Banner, ...]
    version: str

    def headline(self) -> tuple[str, str]:
        """Give the headline's first sentence, which is set large, and the rest."""
        first, *rest = SENTENCE_END.split(self.history.headline, maxsplit=1)
        return first, " ".join(rest)

    def span(self) -> str:
        """Say from when to when the runs are."""
        runs = self.history.runs
        if not runs:
            return "no runs"
        return f"{numbers.when(runs[0].created)} to {numbers.when(runs[-1].created)}"

    def changes(self) -> tuple[tuple[Trend, ChangePoint], ...]:
        """Give all changes, the latest first."""
        found = [(trend, change) for trend in self.history.trends for change in trend.changes]
        return tuple(sorted(found, key=lambda pair: pair[0].points[pair[1].at].created, reverse=True))

    def machines(self) -> tuple[tuple[str, tuple[Trend, ...]], ...]:
        """Give the trends by machine."""
        found: dict[str, list[Trend]] = {}
        for trend in self.history.trends:
            found.setdefault(trend.machine, []).append(trend)
        return tuple((machine, tuple(own)) for machine, own in found.items())

    def name(self, trend: Trend) -> str:
        """Name a trend within its machine."""
        return trend_name(trend)

    def run(self, trend: Trend, position: int) -> str:
        """Name the run of a point."""
        return self.history.runs[trend.points[position].run].label

    def over_all(self, trend: Trend) -> str:
        """Write the last level over the first, as the product of the changes between."""
        if len(trend.points) < 2:
            return "one run"
        product = 1.0
        for change in trend.changes:
            product *= change.ratio.median
        return numbers.ratio(product) if trend.changes else "no change shown"


def render_html(
    history: History,
    document: Mapping[str, Any],
    *,
    version: str = "",
    bundle: Callable[[], str] = bundle_text,
    draw: Drawing = here,
) -> str:
    """Write the history as one HTML page without any external reference.

    Args:
        history: what to show.
        document: the same as plain values, for the page to carry.
        version: of this program.
        bundle: gives the charts' code; asked last, so that it may be made meanwhile.
        draw: begins to draw a figure for paper; asked early for the same reason.
    """
    figures = figures_of(history)
    page = _page(history, version, figures, stills(figures, draw))
    return framed(
        html_environment(), "history.html", page,
        folder="history", figures=figures, document=document, bundle=bundle,
    )  # fmt: skip


def render_markdown(history: History, *, version: str = "") -> str:
    """Write the history in GitHub's Markdown."""
    text = markdown_environment().get_template("history.md").render(page=_page(history, version, {}, {}))
    return text.strip() + "\n"


def render_csv(history: History) -> str:
    """Write every run of every trend as a row of CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for trend in history.trends:
        changes = {one.at: one.ratio for one in trend.changes}
        for position, point in enumerate(trend.points):
            run = history.runs[point.run]
            interval = (point.speed.low, point.speed.high) if numbers.has_interval(point.speed) else ("", "")
            ratio = changes.get(position)
            change = (ratio.median, ratio.low, ratio.high) if ratio else ("", "", "")
            row = (
                run.label, run.run_id, run.created, trend.machine, trend.workload, trend.device,
                trend.variant, trend.setting, point.image, point.speed.median, *interval, point.speed.n,
                *change,
            )  # fmt: skip
            writer.writerow([cell(value) for value in row])
    return text.getvalue()


def _page(
    history: History, version: str, figures: Mapping[str, Figure], drawn: Mapping[str, Markup]
) -> HistoryPage:
    banners = []
    if history.skipped:
        what = counted(len(history.skipped), "entry", "entries")
        text = f"{what} of the folder {'is' if len(history.skipped) == 1 else 'are'} left out; see “Skipped”."
        banners.append(Banner(severity="note", text=text))
    return HistoryPage(
        history=history,
        figures=figures,
        stills=drawn,
        anchors={},
        banners=tuple(banners),
        version=version,
    )
