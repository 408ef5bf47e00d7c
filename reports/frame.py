"""What all pages have in common: style, scripts, figures and the numbers behind them, in one file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from reports import palette
from reports.charts import Figure, still

# Begins to draw a figure; what it gives waits for the SVG.
Drawing = Callable[[Figure], Callable[[], str]]
STILLS = 8  # each takes some 40 ms to draw; the others are drawn by the reader's browser only


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A rendered section: its id, its heading, and its body."""

    id: str
    title: str
    body: str


def framed(
    environment: Environment,
    template: str,
    page: Any,
    *,
    folder: str,
    figures: Mapping[str, Figure],
    document: Any,
    bundle: Callable[[], str],
    record: str = "",
) -> str:
    """Write a page that extends frame.html.

    Args:
        environment: as reports.render.html_environment gives it.
        template: its name.
        page: what the templates see as `page`.
        folder: where its sections' templates lie.
        figures: by id.
        document: plain values for the page to carry.
        bundle: gives the charts' code; asked late, so that it may be made meanwhile.
        record: a run for the page to carry, as harness.run.recording packs it.
    """
    specs = {
        figure.id: {
            "spec": figure.spec,
            "reserve": figure.reserve_px,
            "extent": figure.extent_s,
            "opens": figure.opens_s,
        }
        for figure in figures.values()
    }
    style, script = palette.style() + _text("report.css"), _text("report.js")
    rest = {"specs": packed(specs), "data": packed(document)}
    made = sections(environment, page, folder)
    code = bundle() if figures else ""
    return environment.get_template(template).render(
        page=page,
        sections=made,
        policy=policy(scripts=(script, code), styles=(style,)),
        style=Markup(style),  # noqa: S704 - our own
        script=Markup(script),  # noqa: S704 - our own
        bundle=packed_text(code) if code else "",
        record=record,
        **rest,
    )


def policy(*, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Give a Content-Security-Policy under which nothing runs and nothing is styled but these texts.

    A script or a style sheet that somebody brings in has another hash. Style attributes are allowed: charts
    and tooltips are placed by them.
    """
    allowed = " ".join(_hash(text) for text in scripts if text)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {allowed}",
            f"style-src-elem {' '.join(map(_hash, styles))}",
            "style-src-attr 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def sections(environment: Environment, page: Any, folder: str) -> tuple[Section, ...]:
    """Render the sections of a folder that have something to say; their names begin with their order."""
    found = []
    names = sorted(one for one in environment.list_templates() if one.startswith(f"{folder}/"))
    # All are compiled before the first is filled in: stills may still be being drawn meanwhile.
    templates = [environment.get_template(name) for name in (*names, "macros.html")]
    for name, template in zip(names, templates, strict=False):
        module: Any = template.make_module({"page": page})
        body = str(module).strip()
        if body:
            id_ = name.removeprefix(f"{folder}/").removesuffix(".html").split("_", 1)[1].replace("_", "-")
            found.append(Section(id=id_, title=str(module.title), body=Markup(body)))  # noqa: S704
    return tuple(found)


def here(figure: Figure) -> Callable[[], str]:
    """Draw a figure when it is asked for."""
    return partial(still, figure)


def stills(figures: Mapping[str, Figure], draw: Drawing = here) -> Mapping[str, Markup]:
    """Draw the figures of the lowest rank for paper and for readers without scripts.

    Args:
        figures: by id.
        draw: begins to draw a figure, and gives what waits for its SVG.
    """
    first = sorted(figures.values(), key=lambda figure: figure.rank)[:STILLS]
    return _Stills({figure.id: draw(figure) for figure in first})


class _Stills(Mapping[str, Markup]):
    """Drawings that are waited for when they are first looked at."""

    def __init__(self, coming: Mapping[str, Callable[[], str]]) -> None:
        self._coming = coming
        self._drawn: dict[str, Markup] = {}

    def __getitem__(self, id_: str) -> Markup:
        if id_ not in self._drawn:
            self._drawn[id_] = Markup(self._coming[id_]())  # noqa: S704 - made by Vega, text escaped
        return self._drawn[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._coming)

    def __len__(self) -> int:
        return len(self._coming)


def packed(document: Any) -> str:
    """Give JSON, gzipped and in base64: a tenth of the size, and no character to escape."""
    return packed_text(json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def packed_text(text: str) -> str:
    """Give text, gzipped and in base64."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _text(name: str) -> str:
    return (resources.files("reports") / "templates" / name).read_text(encoding="utf-8")
