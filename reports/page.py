"""Write the report of a run as an HTML page or as Markdown for a pull request."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.analysis.compared_facts import machine_name
from harness.analysis.results_json import results_document
from harness.model.analysis import Analysis
from reports.figures import figures_of
from reports.frame import environment, framed
from reports.ladder import ladders
from reports.names import devices_of
from reports.overview import description, rows
from reports.verdict import verdict


def render_html(analysis: Analysis, *, code: str, record: str = "") -> str:
    """Return the report as one HTML page without external references.

    Args:
        analysis: the analysis to report.
        code: the JavaScript of the charts, from `charts_code`.
        record: the run to embed, packed by harness.run.recording.
    """
    figures, document = figures_of(analysis), results_document(analysis)
    digest = hashlib.sha256(record.encode()).hexdigest() if record else ""
    context = {**_context(analysis), "record": record, "digest": digest}
    return framed("page", context, figures, document=document, code=code)


def render_markdown(analysis: Analysis) -> str:
    """Return the report as GitHub Markdown, short enough for a pull request."""
    return environment(html=False).get_template("report.md").render(_context(analysis)).strip() + "\n"


def _context(analysis: Analysis) -> dict[str, Any]:
    """Return the values that templates use besides filters."""
    overview, devices = rows(analysis), devices_of(analysis)
    return {
        "analysis": analysis,
        "machine_name": machine_name(analysis.run.manifest),
        "description": description(analysis.run),
        "verdict": verdict(analysis, overview),
        "devices": devices,
        "rows": overview,
        "ladders": ladders(analysis, overview),
    }
