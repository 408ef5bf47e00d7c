"""Texts that must not be recorded or shown are replaced, however a program prints them. Standard library only."""

from __future__ import annotations

import base64
import functools
import html
import json
import math
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

# Stands for a secret.
HIDDEN = "***"
# Values that are shorter also stand for other things in a text.
SHORTEST, SHORTEST_OTHER = 4, 8
# Longer ones are certificates and the like.
_LONGEST_ENCODED = 256
# As JSON within JSON within a representation.
_QUOTED_TIMES = 3
# How bytes are written one by one, and what is between them.
_BYTES = ("{:02x}", ("", ":", " ", "-")), ("{:d}", (", ", " ")), ("%{:02x}", ("",)), ("\\x{:02x}", ("",))
# Of a text with both kinds of quotes, repr puts a backslash before "'", which of a part alone it may not.
_BOTH = "\"'"
_QUOTES: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: repr(text + _BOTH)[1:-4],
    lambda text: ascii(text + _BOTH)[1:-4],
    lambda text: repr(text.encode(errors="replace"))[2:-1],
)
_FINAL_QUOTES: tuple[Callable[[str], str], ...] = (
    html.escape,
    functools.partial(html.escape, quote=False),
    functools.partial(urllib.parse.quote, errors="replace"),
    functools.partial(urllib.parse.quote, safe="", errors="replace"),
    functools.partial(urllib.parse.quote_plus, errors="replace"),
    lambda text: text.replace("'", "'\"'\"'"),  # of a shell
)


def without(text: str, hidden: Iterable[str]) -> str:
    """Replace each of some texts, before a text is cut, because a part would not be found."""
    for form in _forms(tuple(hidden)):
        text = text.replace(form, HIDDEN)
    return text


@functools.cache
def _forms(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as programs print them, longest first."""
    lines = [line for text in hidden for line in (text, *text.splitlines()) if len(line) >= SHORTEST]
    encoded = (text for text in hidden if SHORTEST_OTHER <= len(text) <= _LONGEST_ENCODED)
    found = {form for line in lines for form in _quoted(line)} | {
        form for text in encoded for form in _encoded(text) if len(form) >= SHORTEST_OTHER
    }
    return tuple(sorted(found, key=len, reverse=True))


def _quoted(line: str) -> set[str]:
    """Return a line as it is and quoted, also as part of what is quoted again."""
    found = {line}
    for _ in range(_QUOTED_TIMES):
        found |= {quote(each) for each in found for quote in _QUOTES}
    return found | {each for quote in _FINAL_QUOTES for each in map(quote, found)}


def _encoded(text: str) -> Iterator[str]:
    content = text.encode(errors="replace")
    yield from (text.lower(), text.upper())
    yield from _in_base(content, base64.b64encode, 6)
    yield from _in_base(content, base64.urlsafe_b64encode, 6)
    yield from _in_base(content, base64.b32encode, 5)
    for form, between in _BYTES:
        for each in between:
            written = each.join(map(form.format, content))
            yield written
            yield each.join(form.format(byte).upper().replace("X", "x") for byte in content)
    yield "".join(f"\\u{ord(character):04x}" for character in text)
    yield from (between.join(text) for between in (" ", "', '"))


def _in_base(content: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """Yield what content is in the encoding of any text that has it, as in an Authorization header."""
    for before in range(bits // math.gcd(bits, 8)):
        # Characters that are of the content alone.
        first, last = -(-8 * before // bits), 8 * (before + len(content)) // bits
        yield encode(bytes(before) + content).decode()[first:last]
