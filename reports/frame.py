"""Parts common to all pages: templates, style, scripts, figures and embedded data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.analysis.extract import facts
from harness.wording import counted, scalar_word, some
from reports import acceptance, causes, charts, compare_messages, machine, messages, numbers, text
from reports.charts import Figure, still
from reports.overview import operating_point
from reports.speed_charts import sweep_table
from reports.text import device_name
from workloads.variants import variant_name

# Functions available to templates under their own names.
_FILTERS: tuple[Callable[..., Any], ...] = (
    counted, device_name, text.breakable, text.code_block, text.coded, text.exact, facts,
    causes.advice, causes.explanation, causes.fix, messages.command, messages.further, messages.limit, messages.no_rate,
    messages.removed,
    numbers.duration, numbers.energy, numbers.factor, numbers.factor_with_interval, numbers.gain,
    numbers.interval, numbers.money, numbers.number,
    numbers.percent, numbers.published, numbers.quantity, numbers.ratio, numbers.ratio_estimate, numbers.ratio_interval,
    numbers.size, numbers.speed, numbers.spread, numbers.when, charts.part_colour, scalar_word,
    operating_point, some, still, sweep_table, variant_name,
)  # fmt: skip


@cache
def environment(*, html: bool) -> Environment:
    """Return the template environment; all values are escaped and unknown names are errors.

    Args:
        html: escape for HTML, else for GitHub Markdown.
    """
    env = Environment(
        loader=PackageLoader("reports"),
        autoescape=html,  # noqa: S701 - Markdown is escaped by `finalize`
        undefined=StrictUndefined,
        finalize=text.escape_html if html else text.escape_markdown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {function.__name__: function for function in _FILTERS}
    env.globals |= {
        "acceptance": acceptance,
        "messages": messages,
        "compare_messages": compare_messages,
        "machine": machine,
    }
    env.globals["m"] = env.get_template("macros.html").module
    return env


def charts_code() -> str:
    """Return the JavaScript of the charts; generating it takes over a second."""
    # The bundle of Vega, Vega-Lite and Vega-Embed is included in vl-convert.
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text


def framed(
    name: str, context: Mapping[str, Any], figures: Mapping[str, Figure], *, document: Any, code: str
) -> str:
    """Return a page that extends frame.html.

    Args:
        name: name of the template and of the folder of its sections.
        context: values available to the template and its sections.
        document: JSON-serialisable data to embed.
        code: the JavaScript of the charts, embedded only if there are figures.
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
    context = {**context, "figures": figures}
    style, script = charts.style() + _text("report.css"), _text("report.js")
    bundle = code if figures else ""
    return (
        environment(html=True)
        .get_template(f"{name}.html")
        .render(
            **context,
            sections=_sections(context, name),
            script_hashes=" ".join(_hash(text) for text in (script, bundle) if text),
            style_hash=_hash(style),
            style=Markup(style),  # noqa: S704 - our own
            script=Markup(script),  # noqa: S704 - our own
            specs=_packed(_json(specs)),
            data=_packed(_json(document)),
            bundle=_packed(bundle) if bundle else "",
        )
    )


def _hash(text: str) -> str:
    """Return the hash of a text as a Content-Security-Policy source."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _sections(context: Mapping[str, Any], folder: str) -> list[dict[str, str]]:
    """Render the sections of a folder that are not empty; file names begin with their position."""
    env, result = environment(html=True), []
    for name in sorted(template for template in env.list_templates() if template.startswith(f"{folder}/")):
        module: Any = env.get_template(name).make_module(dict(context))
        if body := str(module).strip():
            id_ = name.removeprefix(f"{folder}/").removesuffix(".html").split("_", 1)[1]
            result.append({"id": id_, "title": str(module.title), "body": Markup(body)})  # noqa: S704
    return result


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _packed(text: str) -> str:
    """Return text as base64 of gzip: a tenth of the size and nothing to escape."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _text(name: str) -> str:
    return (resources.files("reports") / "templates" / name).read_text(encoding="utf-8")
