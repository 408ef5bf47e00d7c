"""Text that says in Markdown what it says, whatever characters it is made of."""

from __future__ import annotations

import re

from markupsafe import Markup

from reports.text import harmless

# Characters that begin a construct in GitHub's Markdown, HTML and mentions among them.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~])")
_AT_LINE_START = re.compile(r"^(\d*)([-+=>.)])(?=\s|$)")
_BREAKS = re.compile(r"\s*[\r\n\t\v\f\u2028\u2029]+\s*")


def escape_markdown(value: object) -> str:
    """Escape a template's value; Markup, which only our own filters make, stays as it is."""
    if isinstance(value, Markup):
        return str(value)
    return _escape(str(value))


def code_span(text: str) -> Markup:
    """Set text as code in one line, fenced by more backticks than it has."""
    flat = _BREAKS.sub(" ", harmless(text)).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    return Markup(f"{fence} {flat} {fence}" if longest else f"`{flat or ' '}`")  # noqa: S704


def coded_markdown(text: str) -> Markup:
    """Set what stands between backticks as code, and escape all the rest."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup(_escape(text))  # noqa: S704
    written = (str(code_span(part)) if place % 2 else _escape(part) for place, part in enumerate(parts))
    return Markup("".join(written))  # noqa: S704


def code_block(text: str, language: str = "") -> Markup:
    """Set text as a block of code, fenced by more backticks than it has."""
    text = harmless(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text.rstrip()}\n{fence}")  # noqa: S704


def _escape(text: str) -> str:
    flat = _BREAKS.sub(" ", harmless(text)).replace("&", "&amp;").replace("<", "&lt;")
    escaped = _AT_LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", flat))
    # A zero-width joiner keeps "@name" from calling someone in.
    return escaped.replace("@", "@\u200d").replace("://", ":\u200d//")
