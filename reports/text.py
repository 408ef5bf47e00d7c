"""Text from outside, made harmless to the lines around it."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")


def harmless(text: str) -> str:
    """Replace characters that would turn the direction of the text after them, and other controls.

    Line feeds and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _controls(character) else character for character in text)


def _controls(character: str) -> bool:
    if character in _KEPT:
        return False
    return unicodedata.category(character) == "Cc" or character in _DIRECTIONS


_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
