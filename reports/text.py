"""Text from outside, made harmless to the lines around it."""

from __future__ import annotations

import unicodedata

from markupsafe import Markup, escape

_KEPT = frozenset("\n\t")


def harmless(text: str) -> str:
    """Replace characters that would turn the direction of the text after them, and other controls.

    Line feeds and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _controls(character) else character for character in text)


def coded(text: str) -> Markup:
    """Set what stands between backticks as code, and escape all of it for HTML."""
    parts = harmless(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its other half is one
        return escape("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def breakable(name: str) -> Markup:
    """Let a long name of words joined by underscores break between them."""
    return escape(harmless(name)).replace("_", Markup("_<wbr>"))


def _controls(character: str) -> bool:
    if character in _KEPT:
        return False
    return unicodedata.category(character) == "Cc" or character in _DIRECTIONS


_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
