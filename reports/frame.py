"""What all pages have in common: templates, style, scripts, figures and the numbers behind them, in one file."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.analysis.facts import facts
from harness.wording import counted, scalar_word
from reports import compare_messages, escaping, messages, numbers, palette
from reports.charts import Figure, still
from reports.names import device_name, variant_name
from reports.sweep_chart import sweep_table

# Vega, Vega-Lite and Vega-Embed, as vl-convert ships them.
_EXPORT = "window.vegaEmbed = vegaEmbed;"
# What the templates can call, by its own name.
_FILTERS: tuple[Callable[..., Any], ...] = (
    counted, device_name, escaping.breakable, escaping.code_block, escaping.coded, facts,
    messages.alone, messages.explanation, messages.fix, messages.gain, messages.limit, messages.no_rate,
    numbers.duration, numbers.energy, numbers.factor, numbers.interval, numbers.money, numbers.number,
    numbers.percent, numbers.published, numbers.quantity, numbers.ratio, numbers.ratio_estimate, numbers.ratio_interval,
    numbers.size, numbers.speed, numbers.when, palette.part_colour, scalar_word,
    still, sweep_table, variant_name,
)  # fmt: skip


@cache
def environment(*, html: bool) -> Environment:
    """Give the templates' environment: everything is escaped, and an unknown name is an error.

    Args:
        html: for HTML, else for GitHub's Markdown.
    """
    made = Environment(
        loader=PackageLoader("reports"),
        autoescape=html,  # noqa: S701 - Markdown is escaped in its own way
        undefined=StrictUndefined,
        finalize=escaping.escape_html if html else escaping.escape_markdown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {each.__name__: each for each in _FILTERS}
    made.globals |= {"messages": messages, "compare_messages": compare_messages}
    return made


def charts_code(cache_folder: Path | None = None) -> str:
    """Return the charts' JavaScript.

    Args:
        cache_folder: where it is kept for the next page, as it takes over a second to make; None for nowhere.
    """
    kept = cache_folder / f"vega-{version('vl-convert-python')}.js" if cache_folder else None
    with contextlib.suppress(OSError):
        if kept is not None:
            return kept.read_text(encoding="utf-8")
    text: str = vl_convert.javascript_bundle(_EXPORT)
    with contextlib.suppress(OSError):  # what cannot be kept is made again
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            partial = kept.with_name(f"{kept.name}.{os.getpid()}.partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(kept)
    return text


def framed(
    template: str,
    page: Any,
    figures: Mapping[str, Figure],
    *,
    folder: str,
    document: Any,
    code: Callable[[], str] = charts_code,
    record: str = "",
) -> str:
    """Write a page that extends frame.html.

    Args:
        template: its name.
        page: what the templates see as `page`.
        figures: by id.
        folder: where its sections' templates lie.
        document: plain values for the page to carry.
        code: gives the charts' JavaScript, for pages that have any.
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
    context = {"page": page, "figures": figures}
    style, script = palette.style() + _text("report.css"), _text("report.js")
    charts = code() if figures else ""
    return (
        environment(html=True)
        .get_template(template)
        .render(
            **context,
            sections=_sections(context, folder),
            script_hashes=" ".join(_hash(text) for text in (script, charts) if text),
            style_hash=_hash(style),
            style=Markup(style),  # noqa: S704 - our own
            script=Markup(script),  # noqa: S704 - our own
            specs=_packed(_json(specs)),
            data=_packed(_json(document)),
            bundle=_packed(charts) if charts else "",
            record=record,
        )
    )


def _hash(text: str) -> str:
    """Give a text's hash as a Content-Security-Policy names what it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _sections(context: Mapping[str, Any], folder: str) -> list[dict[str, str]]:
    """Render the sections of a folder that have something to say; their names begin with their order."""
    made, result = environment(html=True), []
    for name in sorted(each for each in made.list_templates() if each.startswith(f"{folder}/")):
        module: Any = made.get_template(name).make_module(dict(context))
        if body := str(module).strip():
            id_ = name.removeprefix(f"{folder}/").removesuffix(".html").split("_", 1)[1]
            result.append({"id": id_, "title": str(module.title), "body": Markup(body)})  # noqa: S704
    return result


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _packed(text: str) -> str:
    """Give text, gzipped and in base64: a tenth of the size, and no character to escape."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _text(name: str) -> str:
    return (resources.files("reports") / "templates" / name).read_text(encoding="utf-8")
