"""The report typeset as PDF by Typst: the same words, tables and figures as the HTML page, made for paper."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import typst

from harness.model.analysis import Analysis
from reports.charts import Figure, still
from reports.figures import figures_of
from reports.outline import Node, outline
from reports.render import render_words
from reports.text import harmless

PAPERS: Mapping[str, str] = {"a4": "a4", "letter": "us-letter"}
_VARIABLE = re.compile(r"var\((--[a-z0-9-]+)\)")
_DEFINITION = re.compile(r"(--[a-z0-9-]+):\s*(#[0-9a-f]{3,8})")
_FAMILY = re.compile(r'font-family="[^"]*"')
_LONG_WORD = re.compile(r"[^\s\u200b]{17,}")
_PIECE = 16


def render_pdf(analysis: Analysis, *, paper: str = "a4") -> bytes:
    """Typeset the report.

    Args:
        analysis: what to report.
        paper: one of PAPERS.
    """
    figures = figures_of(analysis)
    tree = outline(render_words(analysis, figures))
    colours = _colours()
    with tempfile.TemporaryDirectory(prefix="tfbench-pdf-") as work:
        folder = Path(work)
        for figure in figures.values():
            drawing = _FAMILY.sub('font-family="Libertinus Serif"', still(figure))
            drawing = _VARIABLE.sub(lambda found: colours.get(found[1], "#000"), drawing)
            (folder / f"{figure.id}.svg").write_text(drawing, encoding="utf-8")
        document = {
            "tree": _breakable(tree),
            "figures": {figure.id: _described(figure, colours) for figure in figures.values()},
            "run": harmless(analysis.run.manifest.run_id),
            "version": harmless(analysis.run.manifest.tfbench_version),
        }
        (folder / "report.json").write_text(json.dumps(document), encoding="utf-8")
        template = resources.files("reports") / "templates" / "report.typ"
        (folder / "report.typ").write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
        made = typst.compile(
            folder / "report.typ", root=folder, format="pdf", sys_inputs={"paper": PAPERS[paper]}
        )
    assert isinstance(made, bytes)
    return made


def _described(figure: Figure, colours: Mapping[str, str]) -> dict[str, object]:
    return {
        "description": harmless(f"{figure.title}. {figure.description}"),
        "legend": [
            {
                "colour": _VARIABLE.sub(lambda found: colours.get(found[1], "#000"), key.colour),
                "shape": key.shape,
                "name": harmless(key.name),
            }
            for key in figure.legend
        ],
    }


def _colours() -> Mapping[str, str]:
    """Give the style sheet's colours for light pages."""
    style = (resources.files("reports") / "templates" / "report.css").read_text(encoding="utf-8")
    return dict(_DEFINITION.findall(style[: style.index("}")]))


def _breakable(node: Node, *, within: str = "") -> Node:
    """Let long words in table cells break: digests and paths have no space in them."""
    inside = within or (node["tag"] if node["tag"] in ("table", "dl") else "")
    children = [
        _breakable(child, within=inside)
        if isinstance(child, dict)
        else (_LONG_WORD.sub(_pieces, child) if inside else child)
        for child in node["children"]
    ]
    return {**node, "children": children}


def _pieces(word: re.Match[str]) -> str:
    text = word[0]
    natural = re.sub(r"(?<=[/_.,:-])(?=\w)", "\u200b", text)
    if natural != text and max(map(len, natural.split("\u200b"))) <= _PIECE:
        return natural
    return "\u200b".join(text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
