"""From an Analysis to text: one HTML page that needs nothing else, or Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.analysis.results import results_document
from harness.model.analysis import Analysis
from harness.model.comparison import Extract
from reports.bundle import bundle_text
from reports.figures import figures_of
from reports.filters import FILTERS
from reports.frame import Drawing, framed, here, stills
from reports.markdown import escape_markdown
from reports.page import page_of
from reports.text import harmless


def render_html(
    analysis: Analysis,
    *,
    record: str = "",
    bundle: Callable[[], str] = bundle_text,
    draw: Drawing = here,
    references: Sequence[Extract] = (),
) -> str:
    """Write the report as one HTML page without any external reference.

    Args:
        analysis: what to report.
        record: the run for the page to carry, as harness.run.recording packs it.
        bundle: gives the charts' code; asked last, so that it may be made meanwhile.
        draw: begins to draw a figure for paper; asked early for the same reason.
        references: machines that tfbench was measured on, shown beside published numbers.
    """
    figures = figures_of(analysis, references)
    page = page_of(analysis, figures, stills(figures, draw))
    return framed(
        html_environment(),
        "page.html",
        page,
        folder="sections",
        figures=figures,
        document=results_document(analysis),
        bundle=bundle,
        record=record,
    )


def render_markdown(analysis: Analysis) -> str:
    """Write the report in GitHub's Markdown, short enough for a pull request."""
    text = markdown_environment().get_template("report.md").render(page=page_of(analysis, {}, {}))
    return text.strip() + "\n"


@cache
def markdown_environment(**filters: Callable[..., object]) -> Environment:
    """Give the templates' environment for Markdown: everything is escaped in its own way.

    There is one for each set of `filters` beside the usual ones, so that a template is compiled once.
    """
    environment = _environment(filters, autoescape=False)
    environment.finalize = escape_markdown
    return environment


@cache
def html_environment(**filters: Callable[..., object]) -> Environment:
    """Give the templates' environment: everything is escaped, and an unknown name is an error.

    There is one for each set of `filters` beside the usual ones, so that a template is compiled once.
    """
    environment = _environment(filters, autoescape=True)
    environment.finalize = _printable
    return environment


def _environment(filters: Mapping[str, Callable[..., object]], *, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=autoescape,  # noqa: S701 - off for Markdown only, which escapes in its own way
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, **filters}
    return environment


def _printable(value: object) -> object:
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value
