"""Text from outside, made to say in HTML and in Markdown what it says and to do nothing else."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

# Unicode's control characters (category Cc) but line feed and tab, and those that turn the direction.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Characters that begin a construct in GitHub's Markdown, HTML and mentions among them.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~])")
_AT_LINE_START = re.compile(r"^(\d*)([-+=>.)])(?=\s|$)")
_BREAKS = re.compile(r"\s*[\r\n\t\v\f\u2028\u2029]+\s*")


def harmless(text: str) -> str:
    """Replace characters that would turn the direction of the text after them, and other controls.

    Line feeds and tabs stay.
    """
    return _CONTROLS.sub("\ufffd", text)


def escape_html(value: object) -> object:
    """Make a template's text harmless; Jinja escapes it."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def coded(text: str) -> Markup:
    """Set what stands between backticks as code, and escape all of it for HTML."""
    parts = harmless(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its other half is one
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def breakable(name: str) -> Markup:
    """Let a long name of words joined by underscores break between them."""
    return escape(harmless(name)).replace("_", Markup("_<wbr>"))


def escape_markdown(value: object) -> str:
    """Escape a template's value; Markup, which only our own filters make, stays as it is."""
    if isinstance(value, Markup):
        return str(value)
    flat = _BREAKS.sub(" ", harmless(str(value))).replace("&", "&amp;").replace("<", "&lt;")
    escaped = _AT_LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", flat))
    # A zero-width joiner keeps "@name" from calling someone in.
    return escaped.replace("@", "@\u200d").replace("://", ":\u200d//")


def code_block(text: str, language: str = "") -> Markup:
    """Set text as a block of Markdown's code, fenced by more backticks than it has."""
    text = harmless(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text.rstrip()}\n{fence}")  # noqa: S704
