"""From an Analysis to text: one HTML page that needs nothing else, or Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.model import Analysis
from reports.bundle import bundle_text
from reports.charts import Figure, script_json, still
from reports.data import packed
from reports.figures import figures_of
from reports.filters import FILTERS
from reports.markdown import escape_markdown
from reports.page import Page, page_of
from reports.text import harmless

STILLS = 8  # each takes some 40 ms to draw; the others are drawn by the reader's browser only


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A rendered section: its id, its heading, and its body."""

    id: str
    title: str
    body: str


def render_html(analysis: Analysis, *, record: str = "", bundle: Callable[[], str] = bundle_text) -> str:
    """Write the report as one HTML page without any external reference.

    Args:
        analysis: what to report.
        record: the run for the page to carry, as harness.recording packs it.
        bundle: gives the charts' code; asked last, so that it may be made meanwhile.
    """
    figures = figures_of(analysis)
    stills = _stills(figures)
    page = page_of(analysis, figures, stills)
    environment = html_environment()
    specs = {
        figure.id: {"spec": figure.spec, "reserve": figure.reserve_px, "extent": figure.extent_s}
        for figure in figures.values()
    }
    return environment.get_template("page.html").render(
        page=page,
        sections=sections_of(environment, page),
        bundle=Markup(bundle() if figures else ""),  # noqa: S704 - as shipped by vl-convert
        style=Markup(_text("report.css")),  # noqa: S704 - our own
        script=Markup(_text("report.js")),  # noqa: S704 - our own
        specs=Markup(script_json(specs)),  # noqa: S704 - escaped for a script element
        data=packed(analysis),
        record=record,
    )


def render_markdown(analysis: Analysis) -> str:
    """Write the report in GitHub's Markdown, short enough for a pull request."""
    text = markdown_environment().get_template("report.md").render(page=page_of(analysis, {}, {}))
    return text.strip() + "\n"


def markdown_environment() -> Environment:
    """Give the templates' environment for Markdown: everything is escaped in its own way."""
    environment = _environment(autoescape=False)
    environment.finalize = escape_markdown
    return environment


def html_environment() -> Environment:
    """Give the templates' environment: everything is escaped, and an unknown name is an error."""
    environment = _environment(autoescape=True)
    environment.finalize = _printable
    return environment


def section_names(environment: Environment) -> tuple[str, ...]:
    """List the section templates; their file names begin with the number that orders them."""
    return tuple(sorted(name for name in environment.list_templates() if name.startswith("sections/")))


def _environment(*, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=autoescape,  # noqa: S701 - off for Markdown only, which escapes in its own way
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


def _printable(value: object) -> object:
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def sections_of(environment: Environment, page: Page) -> tuple[Section, ...]:
    """Render the sections that have something to say."""
    found = []
    for name in section_names(environment):
        module: Any = environment.get_template(name).make_module({"page": page})
        body = str(module).strip()
        if body:
            id_ = name.removeprefix("sections/").removesuffix(".html").split("_", 1)[1].replace("_", "-")
            found.append(Section(id=id_, title=str(module.title), body=Markup(body)))  # noqa: S704
    return tuple(found)


def _stills(figures: Mapping[str, Figure]) -> Mapping[str, Markup]:
    first = sorted(figures.values(), key=lambda figure: figure.rank)[:STILLS]
    return {figure.id: Markup(still(figure)) for figure in first}  # noqa: S704 - made by Vega, text escaped


def _text(name: str) -> str:
    return (resources.files("reports") / "templates" / name).read_text(encoding="utf-8")
