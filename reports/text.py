"""Text from outside, made harmless to the lines around it."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

# Unicode's control characters (category Cc) but line feed and tab, and those that turn the direction.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Replace characters that would turn the direction of the text after them, and other controls.

    Line feeds and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("\ufffd", text)


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
